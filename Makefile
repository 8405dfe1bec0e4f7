# Needs make, python3 (3.11 or newer) and pip. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS_READY := $(VENV)/.peers-ready
INTEROP := $(VENV)-interop
INTEROP_READY := $(INTEROP)/.ready
ADAPTERS_READY := $(VENV)/.adapters-ready
DOCS_READY := $(VENV)/.docs-ready
RELEASE := $(VENV)-release
# Every version for Python 3.11, the reference interpreter; /dev/null for none.
CONSTRAINTS ?= constraints.txt
# The options of the default run, without those that leave these groups out.
GROUP := -o addopts="--strict-markers --strict-config -ra --import-mode=importlib"
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help environment reproduce results bench data test checks format quick test-heavy test-peers \
	test-browser test-interop test-adapters docs test-docs dist test-release clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint $(CONSTRAINTS) --editable ".[dev]"
	@touch $@

$(PEERS_READY): $(READY)
	$(INSTALL) --constraint $(CONSTRAINTS) --editable ".[dev,peers]"
	@touch $@

$(ADAPTERS_READY): $(READY)
	$(INSTALL) --constraint $(CONSTRAINTS) --editable ".[dev,adapters]"
	@touch $@

$(DOCS_READY): $(READY)
	$(INSTALL) --constraint $(CONSTRAINTS) --editable ".[dev,docs]"
	@touch $@

$(INTEROP_READY): pyproject.toml constraints-interop.txt
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-interop.txt --editable ".[interop]"
	@touch $@

environment: $(READY) ## Set up .venv with everything that development needs

reproduce: $(READY) ## Repeat the paper in small: 8 data sets, 1 repeat, all cores
	$(BIN)/calibrant reproduce --profile quick --workers 0 --out reproduction

results: $(READY) ## Go on with the full runs, and write them into README and docs (hours)
	$(BIN)/calibrant reproduce --profile paper --workers 0 --out results/paper
	$(BIN)/calibrant reproduce --profile shuffled --workers 0 --out results/shuffled
	$(BIN)/python docs/make_results.py

checks: $(READY) ## Lint, format, types, layers, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell src tests examples bench docs tools README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md NOTICE

test: checks ## All checks and all tests, with branch coverage
	$(BIN)/pytest --numprocesses 2 --dist worksteal --cov --cov-report=term

quick: $(READY) ## The tests that train nothing
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m "not slow and not heavy"

test-heavy: $(READY) ## Runs that are killed again and again, also on a cluster
	$(BIN)/pytest tests/paper -m heavy --numprocesses 2 $(GROUP)

test-peers: $(PEERS_READY) ## Other libraries as oracles
	$(BIN)/pytest tests/peers $(GROUP)

test-browser: $(READY) ## The report in headless Chromium; skipped without a browser
	$(BIN)/pytest tests/browser $(GROUP)

bench: $(PEERS_READY) ## Time everything against peers and the machine's limits (half an hour)
	$(BIN)/python -m bench
	$(BIN)/python docs/make_benchmarks.py

data: $(READY) ## Build the bundled data sets from their sources again and compare
	$(BIN)/python tools/build_data.py --check

test-interop: $(INTEROP_READY) ## Recalibrate the models of libraries that need pandas 2
	$(INTEROP)/bin/pytest tests/interop $(GROUP)

test-adapters: $(ADAPTERS_READY) ## The examples inside other people's stacks
	$(BIN)/pytest tests/adapters $(GROUP)

docs: $(DOCS_READY) ## Build the manual into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html"

test-docs: docs ## Every code block and link of the manual, and the notebook
	$(BIN)/pytest tests/site $(GROUP)

dist: $(READY) ## Build wheel and sdist, and look at them
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_release.py dist

test-release: dist ## Install the wheel in a clean environment and use it
	rm -rf $(RELEASE)
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(CONSTRAINTS) dist/*.whl
	$(RELEASE)/bin/python -I tools/smoke.py

format: $(READY) ## Fix what can be fixed by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) $(INTEROP) $(RELEASE) reproduction build dist site .coverage
