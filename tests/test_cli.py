"""The command line."""

import json

import pytest
from typer.testing import CliRunner

from calibrant import __version__
from calibrant.commands.app import app, main
from calibrant.distributions import DISTRIBUTIONS
from calibrant.learners import HEADS, NETWORKS
from calibrant.metrics import METRICS
from calibrant.recalibration import RECALIBRATORS
from calibrant.regularizers import REGULARIZERS
from calibrant.scores import SCORES
from calibrant.sorting import SORTERS

run = CliRunner()


def test_lists_every_part_with_what_it_does() -> None:
    result = run.invoke(app, ["methods"], env={"COLUMNS": "160"})
    assert result.exit_code == 0
    for table in (
        SORTERS,
        REGULARIZERS,
        DISTRIBUTIONS,
        NETWORKS,
        HEADS,
        RECALIBRATORS,
        METRICS,
        SCORES,
    ):
        for name in table:
            assert name in result.output
    assert "Cumulative KL divergence of PIT values" in result.output
    assert ":math:" not in result.output
    assert "`" not in result.output


def test_lists_one_kind() -> None:
    result = run.invoke(app, ["methods", "sorters"])
    assert "neural" in result.output
    assert "spacing_entropy" not in result.output


def test_a_mistake_says_what_there_is_with_exit_code_2() -> None:
    result = run.invoke(app, ["methods", "sorter"], env={"COLUMNS": "160"})
    assert result.exit_code == 2
    assert "'sorter' is not one of 'all', 'sorters'" in result.output


def test_version_and_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __version__ in run.invoke(app, ["--version"]).output
    assert "calibrant methods regularizers" in run.invoke(app, ["methods", "-h"]).output
    monkeypatch.setattr("sys.argv", ["calibrant", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert __version__ in capsys.readouterr().out


def test_machines_get_names_and_summaries() -> None:
    listed = json.loads(run.invoke(app, ["methods", "sorters", "--json"]).stdout)
    assert list(listed) == ["sorters"]
    assert list(listed["sorters"]) == list(SORTERS)
