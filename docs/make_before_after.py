"""Fit the two models of the picture of before and after, and write their table.

    python docs/make_before_after.py --train  # fit them on five splits, minutes
    python docs/make_before_after.py          # write the table
    python docs/make_before_after.py --check  # fail if it is not up to date

What came out of the training is kept in ``pictures/before_after.json``, from which
``docs/make_pictures.py`` draws the picture.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from calibrant import CalibratedRegressor
from calibrant.data import DataSet, Split, load, random_splits
from calibrant.metrics import paper_calibration_error
from calibrant.paper.tables import Column, Entry, Grid, short, to_markdown

DOCS = Path(__file__).parent
KEPT = DOCS / "pictures" / "before_after.json"
BLOCK = re.compile(r"(<!-- before after -->\n).*?(<!-- end -->)", re.DOTALL)
#: Chosen before anything was trained. All splits are in the table; the picture is of
#: the one on which the default's calibration error is the median.
DATA, SHARE, SPLITS, SEED = "concrete", 0.3, 5, 0
NAMES = ("plain", "default")


def model_of(name: str, seed: int) -> CalibratedRegressor:
    """Make one of the two models: a network as it comes, or the default."""
    if name == "default":
        return CalibratedRegressor(random_state=seed)
    # One network, trained for the likelihood and for nothing else.
    return CalibratedRegressor(
        learners=["network"],
        loss="nll",
        members=1,
        bins=0,
        epochs=100,
        patience=None,
        recalibrator=None,
        recalibrate_on=None,
        random_state=seed,
    )


def measured(name: str, table: DataSet, split: Split, number: int) -> dict[str, Any]:
    """Fit one of the models, and measure it on the rows that it has not seen."""
    model = model_of(name, number).fit(table.x[split.train], table.y[split.train])
    predictive = model.predict_distribution(table.x[split.test])
    y = torch.from_numpy(table.y[split.test])
    pit = predictive.cdf(y)
    return {
        "coverage": float(((2 * pit - 1).abs() <= 0.9).double().mean()),
        "error": paper_calibration_error(pit),
        "rmse": float((predictive.mean - y).square().mean().sqrt()),
        "nll": float(-predictive.log_prob(y).mean()),
        "crps": float(predictive.crps(y).mean()),
        "pit": [round(value, 5) for value in pit.tolist()],
    }


def train() -> None:
    """Fit both models on every split, and keep what came out."""
    table = load(DATA)
    splits = random_splits(len(table.y), SPLITS, share=SHARE, seed=SEED)
    kept = {
        "data": DATA,
        "train_rows": len(splits[0].train),
        "test_rows": len(splits[0].test),
        "splits": [
            {name: measured(name, table, split, number) for name in NAMES}
            for number, split in enumerate(splits)
        ],
    }
    KEPT.write_text(json.dumps(kept) + "\n", encoding="utf-8")


def grid(kept: dict[str, Any]) -> Grid:
    """Both models on all of the splits."""
    floor = 332.5 / kept["test_rows"]
    form: dict[str, tuple[str, Callable[[float], str]]] = {
        "coverage": ("90 % intervals cover", lambda value: f"{100 * value:.1f} %"),
        "error": ("error / floor", lambda value: f"{value / floor:.1f}"),
        "rmse": ("RMSE", short),
        "nll": ("NLL", short),
        "crps": ("CRPS", short),
    }
    splits = kept["splits"]
    means = {
        name: {m: statistics.fmean(each[name][m] for each in splits) for m in form}
        for name in NAMES
    }
    titled = [(f"split {number}", each) for number, each in enumerate(splits)]
    rows = [
        (
            Entry(title),
            *(
                Entry(" → ".join(write(each[name][m]) for name in NAMES))
                for m, (_, write) in form.items()
            ),
        )
        for title, each in [*titled, ("mean", means)]
    ]
    return Grid(
        name="before-after",
        title="Before and after",
        caption=f"Data: {kept['data']}, {kept['train_rows']} rows to learn from and "
        f"{kept['test_rows']} to test on, split at random. Plain → default.",
        columns=(
            Column("split"),
            *(Column(head, "", True) for head, _ in form.values()),
        ),
        rows=tuple(rows),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train if asked to, then write or check the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    if given.train:
        train()
    table = to_markdown(grid(json.loads(KEPT.read_text("utf-8"))))
    text = table.split("\n", 2)[2].strip()
    page = DOCS / "what_is_calibration.md"
    old = page.read_text(encoding="utf-8")
    new = BLOCK.sub(lambda m: f"{m[1]}\n{text}\n\n{m[2]}", old)
    if new != old and given.check:
        sys.stderr.write(f"{page.name} not up to date: run docs/make_before_after.py\n")
        return 1
    if new != old:
        page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
