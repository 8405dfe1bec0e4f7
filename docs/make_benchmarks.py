"""Write ``docs/benchmarks.md``, its picture and the README's table from the runs.

    python docs/make_benchmarks.py          # write
    python docs/make_benchmarks.py --check  # fail if the page is not up to date

Each file of ``results/bench`` is one that ``make bench`` has written; the last two are
shown.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "results" / "bench"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- benchmarks -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURE = ROOT / "docs" / "pictures" / "benchmarks.png"
SHOWN = 2

Run = dict[str, Any]

HEAD = """# Benchmarks

<!-- Numbers are written by docs/make_benchmarks.py from results/bench. -->

```sh
make bench
```

installs the peers and lets this library and each of them do the same work on the same
arrays, in one process and in turns. Each number is the **ratio of the best times**;
absolute times of a shared machine mean little. In brackets: the middle 80 % of the
ratios of single rounds, which tells how quiet the machine was. Where results are
comparable, they are compared first, and a run stops if they disagree. The other takes
one thread or all, whichever is faster for it, unless a note says otherwise; ours takes
what torch takes by itself.

`>= 10x`: at least ten times as fast. `<= 3x`: at most three times as long. `<= +12 %`:
at most that much is added. `>= 45 %`: at least this share of a limit is reached.
"""

#: Why a target is not always reached, by contest.
WHY = {
    "regularizer: share": "a batch of 512 costs its calls, not its numbers. A stack of "
    "networks shares them.",
    "regularizer: share plain": "the same calls in a step that is shorter without "
    "dropout. A stack of networks shares them.",
    "training: ensemble": "matrix products cost the same in both ways; what the stack "
    "saves is calls. The profile of five networks is below.",
    "training: of peak": "what is not products is activations that pass through "
    "memory. The profile of 25 networks is below.",
    "laws: CRPS naive": "the naive form fills fresh memory for all pairs of members, "
    "and what that costs moved by half between the runs; ours works in blocks.",
}


def runs() -> list[Run]:
    """Read the last runs, the oldest first."""
    files = sorted(RUNS.glob("2*.json"))[-SHOWN:]
    return [json.loads(path.read_text("utf-8")) for path in files]


def _number(outcome: Run) -> str:
    return f"{outcome['text']} [{_range(outcome)}]"


def _range(outcome: Run) -> str:
    low, high = outcome["low"], outcome["high"]
    if outcome["text"].endswith("%"):
        return f"{100 * low:.0f} to {100 * high:.0f}"
    if low >= 1000:
        return f"{low:,.0f} to {high:,.0f}"
    return f"{low:.3g} to {high:.3g}"


def _met(outcomes: list[Run]) -> str:
    met = [each["met"] for each in outcomes if each["met"] is not None]
    if not met:
        return ""
    return "yes" if all(met) else "**no**" if not any(met) else "**not always**"


def contests(found: list[Run]) -> Iterator[str]:
    """Yield the lines of the table of ratios."""
    names = [f"run {number + 1}" for number in range(len(found))]
    yield f"| work | against | target | {' | '.join(names)} | met |"
    yield "|:--|:--|:--|" + "--:|" * len(found) + ":--|"
    for key, first in found[-1]["contests"].items():
        each = [run["contests"].get(key) for run in found]
        cells = [first["work"], first["against"], first["goal"]]
        cells += ["-" if outcome is None else _number(outcome) for outcome in each]
        cells.append(_met([outcome for outcome in each if outcome is not None]))
        yield "| " + " | ".join(cells) + " |"


def notes(found: list[Run]) -> Iterator[str]:
    """Yield what a reader should know of single contests."""
    every = max(len(each["threads"]) for each in found[-1]["contests"].values())
    for outcome in found[-1]["contests"].values():
        texts = [outcome["note"]] if outcome["note"] else []
        if len(outcome["threads"]) < every:
            count = outcome["threads"][0]
            texts.append(f"the other on {count} thread{'s' if count > 1 else ''}")
        if texts:
            what = f"{outcome['work']}, against {outcome['against']}"
            yield f"- {what}: {'; '.join(texts)}."


def misses(found: list[Run]) -> Iterator[str]:
    """Yield what is not always reached, and why."""
    for key, outcome in found[-1]["contests"].items():
        met = [run["contests"][key]["met"] for run in found if key in run["contests"]]
        if False in met:
            yield f"- {outcome['work']}: {WHY.get(key, 'not explained yet.')}"


def profiles(found: list[Run]) -> Iterator[str]:
    """Yield what a training step consists of."""
    for each in found[-1]["profiles"].values():
        kind = ", adversarial training and QR" if each["adversarial"] else ""
        yield (
            f"{each['members']} networks{kind}: {100 * each['products']:.0f} % of the "
            f"time in matrix products, {each['calls']:.0f} calls of torch's operations."
        )
        yield "\n| operation | calls | share |\n|:--|--:|--:|"
        for line in each["largest"]:
            share = f"{100 * line['share']:.1f} %"
            yield f"| `{line['name']}` | {line['calls']:.0f} | {share} |"
        yield ""


def limits(found: list[Run]) -> Iterator[str]:
    """Yield what the machine can do at best, run by run."""
    names = [f"run {number + 1}" for number in range(len(found))]
    yield f"| limit | {' | '.join(names)} |"
    yield "|:--|" + "--:|" * len(found)
    for name in found[-1]["machine"]["limits"]:
        rates = [f"{run['machine']['limits'][name]:,.1f}" for run in found]
        yield f"| {name} | {' | '.join(rates)} |"


def growth(found: list[Run]) -> Iterator[str]:
    """Yield the fitted exponents."""
    names = [f"run {number + 1}" for number in range(len(found))]
    yield f"| work | of | sizes | {' | '.join(names)} |"
    yield "|:--|:--|:--|" + "--:|" * len(found)
    for panel, curves in found[-1]["growth"].items():
        for place, curve in enumerate(curves):
            sizes = f"{curve['sizes'][0]:,} to {curve['sizes'][-1]:,}"
            each = [run["growth"][panel][place] for run in found]
            exponents = [
                f"n^{run['exponent']:.2f} (n^{run['exponent_of_all']:.2f})"
                for run in each
            ]
            cells = [curve["panel"], curve["name"], sizes, *exponents]
            yield "| " + " | ".join(cells) + " |"


def _memory(found: list[Run]) -> Iterator[str]:
    for curves in found[-1]["growth"].values():
        for curve in curves:
            if curve["note"]:
                yield f"{curve['panel'].capitalize()}: {curve['note']}."


def page(found: list[Run]) -> str:
    """Make the whole page."""
    kind = found[-1]["machine"]["kind"]
    versions = ", ".join(f"{name} {what}" for name, what in kind["versions"].items())
    when = ", ".join(f"{run['started']} to {run['finished']}" for run in found)
    parts = [
        HEAD,
        "## Ratios\n",
        *contests(found),
        "",
        *notes(found),
        *(
            ["\n### Not always reached\n", *lines]
            if (lines := [*misses(found)])
            else []
        ),
        "\n## Growth\n",
        "Exponents of time against size, fitted over the larger half of the sizes; in "
        "brackets over all, where small sizes cost their calls and not their rows.\n",
        *growth(found),
        "",
        *_memory(found),
        "\n![Cost against size](pictures/benchmarks.png)\n",
        "## What a training step consists of\n",
        *profiles(found),
        "## The machine\n",
        *limits(found),
        "",
        f"{kind['machine']}, {kind['threads']} threads of torch, Python "
        f"{kind['python']}; {versions}. Runs: {when}; code: "
        + ", ".join(run["revision"] for run in found)
        + ".",
    ]
    return "\n".join(parts) + "\n"


def readme(found: list[Run]) -> str:
    """Fill the README's table: all of it, without the spread."""
    lines = ["| work | against | target | measured | met |", "|:--|:--|:--|:--|:--|"]
    for key, first in found[-1]["contests"].items():
        each = [run["contests"][key] for run in found if key in run["contests"]]
        texts = ", ".join(outcome["text"] for outcome in each)
        cells = [first["work"], first["against"], first["goal"], texts, _met(each)]
        lines.append("| " + " | ".join(cells) + " |")
    table = "\n" + "\n".join(lines) + "\n\n"
    return BLOCK.sub(
        lambda block: block[1] + table + block[2], README.read_text("utf-8")
    )


def draw(found: list[Run]) -> None:
    """Draw cost against size, one panel for each kind of work."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    from calibrant.plots import COLORS, finish

    panels = list(found[-1]["growth"].values())
    size = (4.2 * len(panels), 3.6)
    figure, axes = pyplot.subplots(1, len(panels), figsize=size, layout="constrained")
    for ax, curves in zip(axes, panels, strict=True):
        for curve, color in zip(curves, COLORS, strict=False):
            label = f"{curve['name']}: $n^{{{curve['exponent']:.2f}}}$"
            points = curve["sizes"], curve["seconds"]
            ax.loglog(*points, "o-", color=color, label=label, markersize=4)
        finish(ax, x="rows", y="seconds", title=curves[0]["panel"].capitalize())
        ax.legend(frameon=False, fontsize="small")
    figure.savefig(PICTURE, dpi=130)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or say that it is out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    found = runs()
    if not found:
        sys.stdout.write("There is no run yet: make bench\n")
        return 1
    texts = {PAGE: page(found), README: readme(found)}
    stale = [
        path.name
        for path, text in texts.items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    if given.check:
        if stale:
            names = ", ".join(stale)
            sys.stdout.write(f"Out of date: {names}. python docs/make_benchmarks.py\n")
        return int(bool(stale))
    for path, text in texts.items():
        path.write_text(text, "utf-8")
    draw(found)
    sys.stdout.write(f"Written: {PAGE.name}, {README.name}, {PICTURE.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
