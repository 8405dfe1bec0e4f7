"""Draw the pictures of the documentation from generated data.

python docs/make_pictures.py docs/pictures
"""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import torch

mpl.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from calibrant import Gaussian, QuantileRegularizer
from calibrant.metrics.calibration import calibration_error, expected_calibration_error
from calibrant.metrics.conditional import calibration_by
from calibrant.plots import (
    plot_calibration,
    plot_calibration_by,
    plot_intervals,
    plot_pit_histogram,
    plot_sharpness,
    plot_strengths,
)

ROWS = 400
DEMONSTRATION = Path(__file__).parents[1] / "examples" / "demonstration.py"


def data() -> tuple[dict[str, Gaussian], torch.Tensor, torch.Tensor]:
    """Three models of one problem, its targets, and a feature."""
    generator = torch.Generator().manual_seed(1)
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


def pictures() -> dict[str, Callable[[], Axes]]:
    """Name of the file to the function that draws it."""
    models, y, x = data()
    pit = {name: law.cdf(y) for name, law in models.items()}
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
                name: (errors[name], float(law.stddev.mean()))
                for name, law in models.items()
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
    }


def main(folder: Path) -> None:
    """Draw all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in pictures().items():
        draw().get_figure(root=True).savefig(folder / f"{name}.png", dpi=110)  # type: ignore[union-attr]
        pyplot.close("all")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
