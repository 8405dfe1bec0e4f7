"""Figures 1 and 2: what they draw, what they leave out, the same bytes each time."""

from pathlib import Path

import pytest

from calibrant.metrics.floors import calibration_band
from calibrant.paper.figures import curves_figure, sweep_figure, write_figures
from calibrant.paper.ledger import LEVELS, Cell, Record
from calibrant.paper.results import by_arm
from page_records import measured

SWEEP = (0.0, 1.0, 5.0, 20.0)


def _record(cell: Cell, *, rows: int = 40, lift: int = 0) -> Record:
    level = range(1, LEVELS + 1)
    curve = tuple(min(rows, rows * each // LEVELS + lift) for each in level)
    error = 100 * sum(
        (count / rows - each / LEVELS) ** 2
        for each, count in zip(level, curve, strict=True)
    )
    return measured(
        cell,
        train_rows=4 * rows,
        test_rows=rows,
        calibration_error=error,
        floor=100 * (LEVELS**2 - 1) / (6 * LEVELS * rows),
        rmse=1 + 0.01 * cell.strength,
        nll=2 - 0.01 * cell.strength + 0.1 * cell.repeat,
        curve=curve,
    )


def _run(
    data: str = "concrete",
    network: str = "mc_dropout",
    *,
    strengths: tuple[float, ...] = SWEEP,
    repeats: int = 1,
) -> list[Record]:
    return [
        _record(
            Cell(
                data=data,
                folds=2,
                network=network,
                regularizer="cumulative_kl" if strength else "none",
                strength=strength,
                repeat=repeat,
                fold=fold,
            ),
            lift=(-1) ** fold * (3 if strength else 6),
        )
        for strength in strengths
        for repeat in range(repeats)
        for fold in range(2)
    ]


def test_figure_1_draws_both_curves_their_folds_and_the_band() -> None:
    figure = curves_figure(by_arm(_run(strengths=(0.0, 20.0))))
    assert figure is not None
    (ax,) = figure.axes
    thick = [line for line in ax.get_lines() if line.get_linewidth() > 2]
    assert [line.get_label().split(":")[0] for line in thick] == ["Base", "QR, λ = 20"]
    # The folds miss on opposite sides and cancel, save at the clipped ends.
    assert thick[0].get_ydata()[10] == pytest.approx(0.5)
    thin = [line for line in ax.get_lines() if line.get_linewidth() == 0.7]
    assert len([line for line in thin if len(line.get_xdata())]) == 4
    for band, rows in zip(ax.collections, (40, 80), strict=True):
        _, low, high = calibration_band(rows, LEVELS, simultaneous=True)
        heights = band.get_paths()[0].vertices[:, 1]
        assert float(high[9]) in heights
        assert float(low[9]) in heights


def test_figure_1_leaves_a_missing_set_out_and_falls_back_to_others() -> None:
    both = curves_figure(by_arm(_run("concrete") + _run("protein") + _run("yacht")))
    one = curves_figure(by_arm(_run("protein") + _run("concrete", "deep_ensemble")))
    other = curves_figure(by_arm(_run("rides.csv")))
    titles = [
        [ax.get_title(loc="left") for ax in figure.axes]
        for figure in (both, one, other)
        if figure is not None
    ]
    assert titles == [
        ["Concrete, 2 folds, MC dropout", "Protein, 2 folds, MC dropout"],
        ["Protein, 2 folds, MC dropout"],
        ["rides, 2 folds, MC dropout"],
    ]


def test_figure_2_has_a_row_for_each_set_and_a_line_for_each_network() -> None:
    records = _run(repeats=2) + _run(network="deep_ensemble") + _run("protein")
    figure = sweep_figure(by_arm(records))
    assert figure is not None
    assert len(figure.axes) == 6
    error, rmse, nll = figure.axes[:3]
    labels = error.get_legend_handles_labels()[1]
    assert labels == ["a perfect model's mean", "MC dropout", "Deep ensemble"]
    assert [tick.get_text() for tick in rmse.get_xticklabels()] == ["0", "1", "5", "20"]
    drawn = rmse.containers[0].lines[0].get_ydata()
    assert list(drawn) == pytest.approx([1.0, 1.01, 1.05, 1.2])
    # Of the two repeats, at 2.0 and 2.1, the bar is 0.05 to both sides.
    bar = nll.containers[0].lines[2][0].get_segments()[0]
    assert bar[:, 1].tolist() == pytest.approx([2.0, 2.1])
    floor = error.get_lines()[-1].get_ydata()[0]
    assert floor == pytest.approx(100 * 399 / (120 * 40))
    (legend,) = figure.legends
    assert "over folds (one repeat) or repeats" in legend.get_title().get_text()


def test_nothing_to_draw_is_left_out(tmp_path: Path) -> None:
    assert curves_figure(by_arm(_run(strengths=(0.0,)))) is None
    assert sweep_figure(by_arm(_run(strengths=(0.0, 20.0)))) is None
    assert write_figures(by_arm([]), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
    only = write_figures(by_arm(_run(strengths=(0.0, 20.0))), tmp_path)
    assert [path.name for path in only] == ["figure1.svg", "figure1.png"]


def test_the_same_records_in_any_order_give_the_same_bytes(tmp_path: Path) -> None:
    records = _run()
    first = write_figures(by_arm(records), tmp_path / "a")
    second = write_figures(by_arm(records[::-1]), tmp_path / "b")
    assert len(first) == 4
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
