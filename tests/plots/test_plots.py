"""Pictures: what they show, several models, bad input; all of them can be saved."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
import torch
from matplotlib import pyplot

mpl.use("Agg")

from calibrant import Gaussian, InputError
from calibrant.metrics.calibration import calibration_curve
from calibrant.metrics.floors import calibration_band
from calibrant.metrics.groups import calibration_by
from calibrant.plots import (
    plot_calibration,
    plot_calibration_by,
    plot_intervals,
    plot_pit_histogram,
    plot_sharpness,
    plot_strengths,
)

SCRIPT = Path(__file__).parents[2] / "docs" / "make_pictures.py"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")


def test_curve_shows_every_model_and_the_band(generator: torch.Generator) -> None:
    sizes = {"a": 90, "b": 60}
    pits = {name: torch.rand(n, generator=generator) for name, n in sizes.items()}
    ax = plot_calibration(pits, levels=10, title="Both")
    drawn = {line.get_label(): line for line in ax.get_lines()}
    for name, pit in pits.items():
        nominal, observed = calibration_curve(pit, levels=10)
        assert drawn[name].get_xdata().tolist()[1:] == nominal.tolist()
        assert drawn[name].get_ydata().tolist()[1:] == observed.tolist()
    band = ax.collections[0].get_paths()[0].vertices
    _, _, high = calibration_band(60, 10, simultaneous=True)
    assert band[:, 1].max() == pytest.approx(float(high.max()))
    assert float(high[4]) in band[:, 1]
    assert ax.get_title(loc="left") == "Both"
    assert "n = 60" in ax.get_legend().get_texts()[0].get_text()


def test_draws_on_the_axes_that_it_gets() -> None:
    _, ax = pyplot.subplots()
    assert plot_calibration(torch.rand(30), ax=ax) is ax
    assert plot_pit_histogram(torch.rand(30), ax=ax) is ax


def test_histogram_counts_the_rows(generator: torch.Generator) -> None:
    pit = torch.rand(200, generator=generator)
    ax = plot_pit_histogram(pit, bins=5)
    heights = [bar.get_height() for bar in ax.containers[0]]
    assert heights == torch.histc(pit, 5, 0, 1).tolist()
    with pytest.raises(InputError, match=r"shape \(n,\)"):
        plot_pit_histogram(torch.rand(2, 3))


def test_intervals_count_all_rows_and_draw_some() -> None:
    y = torch.linspace(-3, 3, 300)
    ax = plot_intervals((torch.zeros(300), torch.ones(300)), y, coverage=0.5, rows=40)
    inside = (y.abs() <= float(Gaussian(0.0, 1.0).quantile(0.75))).double().mean()
    assert f"covered {100 * float(inside):.1f} % of 300 rows" in ax.texts[0].get_text()
    points = sum(len(line.get_xdata()) for line in ax.get_lines()[1:])
    assert points == 40
    with pytest.raises(InputError, match=r"got \(3,\), \(4,\)"):
        plot_intervals((torch.zeros(3), torch.ones(3)), torch.zeros(4))
    with pytest.raises(InputError, match="rows=0"):
        plot_intervals((torch.zeros(3), torch.ones(3)), torch.zeros(3), rows=0)


def test_tradeoff_and_sweep() -> None:
    ax = plot_sharpness({"a": (0.1, 1.0), "b": (0.2, 0.5)}, floor=0.05)
    assert {"a", "b", "noise floor"} <= {t.get_text() for t in ax.get_legend().texts}
    with pytest.raises(InputError, match="at least one model"):
        plot_sharpness({})
    ax = plot_strengths([0, 5], {"x": [[1.0, 2.0], [3.0, 6.0]]}, label="e", floor=0.1)
    assert ax.containers[0].lines[0].get_ydata().tolist() == [2.0, 4.0]
    assert ax.get_ylabel() == "e"
    with pytest.raises(InputError, match=r"k = 2 strengths, got \(1, 3\)"):
        plot_strengths([0, 5], {"x": [1.0, 2.0, 3.0]}, label="e")


def test_groups_outside_their_range_stand_out(generator: torch.Generator) -> None:
    pit = torch.rand(400, generator=generator)
    pit[200:] = 0.5 + 0.1 * (pit[200:] - 0.5)  # much too timid
    names = 200 * ["good"] + 200 * ["timid"]
    ax = plot_calibration_by(calibration_by(pit, names), name="kind")
    good, timid = ax.collections[1].get_facecolors()
    assert tuple(good) != tuple(timid)
    assert [t.get_text() for t in ax.get_xticklabels()] == [
        "good\nn = 200",
        "timid\nn = 200",
    ]
    with pytest.raises(InputError, match="at least one group"):
        plot_calibration_by([])


@pytest.mark.slow
def test_the_pictures_of_the_documentation_can_be_drawn(tmp_path: Path) -> None:
    runpy.run_path(str(SCRIPT))["main"](tmp_path / "new")
    names = {path.stem for path in (tmp_path / "new").glob("*.png")}
    shown = {path.stem for path in (SCRIPT.parent / "pictures").glob("*.png")}
    assert names == shown - {"benchmarks"}  # drawn from the runs
