"""Draw the pictures of the documentation.

    python docs/make_pictures.py docs/pictures                      # all of them
    python docs/make_pictures.py docs/pictures --only before_after  # some

Most are of generated data. The one of before and after is of what
``docs/make_before_after.py --train`` has kept.
"""

import argparse
import json
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch

mpl.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from calibrant import Empirical, Gaussian, QuantileRegularizer
from calibrant.metrics import calibration_band, calibration_curve, coverage_range
from calibrant.metrics.calibration import calibration_error, expected_calibration_error
from calibrant.metrics.groups import calibration_by
from calibrant.plots import (
    COLORS,
    GRAY,
    finish,
    plot_calibration,
    plot_calibration_by,
    plot_intervals,
    plot_pit_histogram,
    plot_sharpness,
    plot_strengths,
)

ROWS = 400
DEMONSTRATION = Path(__file__).parents[1] / "examples" / "demonstration.py"
KEPT = Path(__file__).parent / "pictures" / "before_after.json"
FEW, PERFECT = 62, 4000


def data(seed: int = 1) -> tuple[dict[str, Gaussian], torch.Tensor, torch.Tensor]:
    """Three models of one problem, its targets, and a feature."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(ROWS, generator=generator).double()
    mean, spread = torch.sin(5 * x) + 2 * x, 0.15 + 0.35 * x
    noise = torch.randn(ROWS, generator=generator).double()
    models = {
        "over-confident": Gaussian(mean, 0.5 * spread),
        "calibrated": Gaussian(mean, spread),
        "one spread for all": Gaussian(mean, torch.full_like(x, float(spread.mean()))),
    }
    return models, mean + spread * noise, x


def strengths() -> Axes:
    """Train the demonstration's networks at several strengths."""
    train = runpy.run_path(str(DEMONSTRATION))["train"]
    grid = [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    errors = [
        [train(QuantileRegularizer(strength=each), seed, 60).error for each in grid]
        for seed in range(3)
    ]
    return plot_strengths(
        grid,
        {"demonstration, 3 repeats": errors},
        label="calibration error x 100",
        title="Strength of the regularizer",
    )


def shapes() -> Axes:
    """Draw what the histogram of PIT values tells: four models of one problem."""
    models, y, _ = data()
    right = models["calibrated"]
    wrong = {
        "Calibrated: flat": right,
        "Over-confident: a U": Gaussian(right.mean, 0.5 * right.stddev),
        "Timid: a hump": Gaussian(right.mean, 2 * right.stddev),
        "Too low: a slope": Gaussian(right.mean - 0.6 * right.stddev, right.stddev),
    }
    _, panels = pyplot.subplots(2, 2, figsize=(8, 5.4), layout="constrained")
    for ax, (title, predictive) in zip(panels.flat, wrong.items(), strict=True):
        plot_pit_histogram(predictive.cdf(y), title=title, ax=ax)
    return panels.flat[0]  # type: ignore[no-any-return]


def marginal() -> Axes:
    """Draw a sharp model beside one that says of every row what holds on average."""
    models, y, _ = data()
    _, past, _ = data(seed=2)
    useless = Empirical(past.unsqueeze(1).expand(-1, ROWS))
    _, panels = pyplot.subplots(
        1, 2, figsize=(9.6, 3.6), sharey=True, layout="constrained"
    )
    plot_intervals(
        models["calibrated"], y, rows=100, title="Calibrated and sharp", ax=panels[0]
    )
    plot_intervals(
        useless, y, rows=100, title="Calibrated and useless", ax=panels[1]
    ).set_ylabel("")
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(low, high + 0.25 * (high - low))  # room for the words
    return panels[0]  # type: ignore[no-any-return]


def noise() -> Axes:
    """Draw the errors that perfect models show on few rows and on more."""
    generator = torch.Generator().manual_seed(0)
    levels = torch.arange(1, 21, dtype=torch.float64) / 20
    _, ax = pyplot.subplots(figsize=(6.4, 3.4), layout="constrained")
    for n, color in ((FEW, COLORS[1]), (5 * FEW, COLORS[0])):
        pit = torch.rand(PERFECT, n, generator=generator, dtype=torch.float64)
        observed = (pit.unsqueeze(-1) <= levels).double().mean(1)
        errors = 100 * (observed - levels).square().sum(-1)
        floor = 100 * expected_calibration_error(n)
        ax.hist(
            errors.numpy(),
            bins=60,
            range=(0, 20),
            color=color,
            alpha=0.55,
            label=f"{n} rows: {floor:.1f} on average",
        )
        ax.axvline(floor, color=color, linewidth=1.6, linestyle="--")
    ax.set_xlim(0, 20)
    ax.legend(frameon=False, fontsize="small")
    return finish(
        ax,
        x="calibration error x 100",
        y=f"of {PERFECT:,} models",
        title="Errors of perfectly calibrated models",
    )


def before_after() -> Axes:
    """Draw the calibration curve of a network as it comes, and of the default."""
    kept = json.loads(KEPT.read_text("utf-8"))
    figure, panels = pyplot.subplots(
        1, 2, figsize=(8.4, 4.8), sharey=True, layout="constrained"
    )
    before, after = panels
    # Neither the best nor the worst: the median by the default's calibration error.
    order = sorted(kept["splits"], key=lambda split: split["default"]["error"])
    usual = order[len(order) // 2]
    _curve(before, usual["plain"], COLORS[1], "Before: one network, nothing else")
    _curve(after, usual["default"], COLORS[0], "After: calibrant's default")
    after.set_ylabel("")
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    figure.supxlabel(
        f"Data: {kept['data']}. {kept['test_rows']} rows that neither has seen. "
        "Gray: where the curve of a perfect model lies (95 %).",
        fontsize=10,
        color="#374151",
    )
    return before  # type: ignore[no-any-return]


def _curve(ax: Axes, found: dict[str, Any], color: str, title: str) -> None:
    n = len(found["pit"])
    promised, low, high = calibration_band(n, 50, simultaneous=True)
    levels = [0.0, *promised.tolist()]
    observed = [0.0, *calibration_curve(found["pit"], levels=50)[1].tolist()]
    ax.fill_between(
        levels, [0.0, *low.tolist()], [0.0, *high.tolist()], color="#E5E7EB"
    )
    ax.fill_between(levels, observed, levels, color=color, alpha=0.15, linewidth=0)
    ax.plot([0, 1], [0, 1], color=GRAY, linewidth=1, linestyle="--")
    ax.plot(levels, observed, color=color, linewidth=2.6)
    least, most = coverage_range(0.9, n)
    text: dict[str, Any] = {"transform": ax.transAxes, "va": "top", "color": "#374151"}
    ax.text(0.04, 0.97, "90 % intervals cover", fontsize=11, **text)
    share = f"{100 * found['coverage']:.0f} %"
    ax.text(
        0.04, 0.905, share, fontsize=24, fontweight="bold", **text | {"color": color}
    )
    perfect = f"a perfect model: {100 * least:.0f} to {100 * most:.0f} %"
    ax.text(0.04, 0.775, perfect, fontsize=9.5, **text)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    finish(ax, x="nominal probability", y="observed frequency", title=None)
    ax.set_title(title, loc="left", fontsize=12.5, fontweight="bold")


def pictures() -> dict[str, Callable[[], Axes]]:
    """Name of the file to the function that draws it."""
    models, y, x = data()
    pit = {name: predictive.cdf(y) for name, predictive in models.items()}
    errors = {name: calibration_error(values) for name, values in pit.items()}
    return {
        "calibration": lambda: plot_calibration(pit, title="Calibration"),
        "histogram": lambda: plot_pit_histogram(
            pit["over-confident"], title="An over-confident model"
        ),
        "intervals": lambda: plot_intervals(
            models["over-confident"], y, title="Intervals of an over-confident model"
        ),
        "sharpness": lambda: plot_sharpness(
            {
                name: (errors[name], float(predictive.stddev.mean()))
                for name, predictive in models.items()
            },
            floor=expected_calibration_error(ROWS),
            title="Sharpness against calibration",
        ),
        "strengths": strengths,
        "groups": lambda: plot_calibration_by(
            calibration_by(pit["one spread for all"], x),
            name="feature x",
            title="One spread for all, seen by feature",
        ),
        "shapes": shapes,
        "marginal": marginal,
        "noise": noise,
        "before_after": before_after,
    }


def main(folder: Path, *, only: Sequence[str] = ()) -> None:
    """Draw all pictures, or some by name, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in pictures().items():
        if only and name not in only:
            continue
        figure = draw().get_figure(root=True)
        # The last is shown large, on the README.
        dpi = 150 if name == "before_after" else 110
        figure.savefig(folder / f"{name}.png", dpi=dpi)  # type: ignore[union-attr]
        pyplot.close("all")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=(), help="names of pictures")
    given = parser.parse_args()
    main(given.folder, only=given.only)
