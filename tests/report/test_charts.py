"""What the charts draw: few rows, sound numbers, whatever was predicted."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from calibrant.metrics.floors import calibration_band, histogram_band
from calibrant.report.charts import (
    MOST_ROWS,
    chart_data,
    drawn_rows,
    ranked_columns,
)
from calibrant.report.contents import OwnReport, Predictions
from own_contents import N, of_law, recalibrated, with_group


def _charts(contents: OwnReport) -> dict[str, Any]:
    return chart_data(contents, ranked_columns(contents.card))


def _rows(**more: Any) -> dict[str, Any]:
    """The rows of four, some of them changed."""
    plain = np.array([3.0, 1.0, 2.0, 2.0])
    parts = {each.name: plain for each in fields(Predictions)}
    parts |= {"row": np.array([10, 20, 40, 30]), **more}
    contents = of_law("good", 4)
    return _charts(replace(contents, predictions=Predictions(**parts)))["rows"]


def test_rows_are_drawn_by_median_and_then_by_number() -> None:
    assert _rows()["row"] == [20, 30, 40, 10]


def test_of_many_rows_few_are_chosen_at_even_distances() -> None:
    n = 200_000
    values = np.random.default_rng(0).permutation(n).astype(float)
    parts = {each.name: values for each in fields(Predictions)}
    _, drawn = drawn_rows(Predictions(**parts))
    center = drawn["center"]
    assert len(center) == MOST_ROWS
    assert (center[0], center[-1]) == (0, n - 1)
    assert set(np.diff(center)) <= {501.0, 502.0}


def test_targets_outside_are_marked_and_ends_count_as_inside() -> None:
    ends = {"low_90": np.full(4, 1.0), "high_90": np.full(4, 2.0)}
    y = np.array([1.0, 2.0, 2.1, 0.9])
    center = np.arange(4.0)
    assert _rows(y=y, center=center, **ends)["outside"] == [0, 0, 1, 1]


def test_ends_without_a_number_are_null_and_do_not_stretch_the_axis() -> None:
    high = np.array([np.inf, 4.0, np.nan, 5.0])
    rows = _rows(high_90=high, center=np.arange(4.0))
    assert rows["high_90"] == [None, 4.0, None, 5.0]
    assert rows["outside"] == [0, 0, 1, 0]
    assert rows["window"] == pytest.approx([-0.2, 5.2])
    every = np.full(4, np.inf)
    assert _rows(high_90=every, low_90=-every)["window"] == pytest.approx([0.92, 3.08])


def test_one_interval_that_is_far_too_wide_does_not_hide_the_others() -> None:
    contents = of_law("good")
    high = np.array(contents.predictions.high_90)
    high[7] = 1e9
    wide = replace(contents.predictions, high_90=high)
    window = _charts(replace(contents, predictions=wide))["rows"]["window"]
    assert window[1] < 2 * _charts(contents)["rows"]["window"][1]


def test_curve_and_histogram_stand_in_their_bands() -> None:
    contents = recalibrated()
    charts = _charts(contents)
    _, low, high = calibration_band(N, 20, simultaneous=True)
    assert charts["curve"]["low"] == pytest.approx(low.tolist(), abs=1e-5)
    assert charts["curve"]["high"] == pytest.approx(high.tolist(), abs=1e-5)
    assert contents.before is not None
    observed = contents.before.curve[1]
    assert charts["curve"]["before"] == pytest.approx(list(observed), abs=1e-5)
    histogram = charts["histogram"]
    assert (histogram["low"], histogram["high"]) == histogram_band(
        N, 10, simultaneous=True
    )
    assert sum(histogram["counts"]) == sum(histogram["before"]) == N
    assert histogram["before"][0] > histogram["high"] >= histogram["counts"][0]


def test_values_at_both_ends_are_counted() -> None:
    contents = of_law("good", 4)
    pit = {"pit": np.array([0.0, 0.2, 0.999, 1.0])}
    card = replace(contents.card, rows=contents.card.rows | pit)
    counts = _charts(replace(contents, card=card))["histogram"]["counts"]
    assert counts == [1, 1, 0, 0, 2]
    bins = [len(_charts(of_law("good", n))["histogram"]["counts"]) for n in (60, 2000)]
    assert bins == [10, 20]


def test_columns_come_worst_first_with_their_groups() -> None:
    columns = _charts(with_group())["columns"]
    assert columns[0]["name"] == "kind"
    assert [group["name"] for group in columns[0]["groups"]] == [
        "flat",
        "house",
        "villa",
    ]
    villa = columns[0]["groups"][2]
    assert villa["covered90"] < villa["range90"][0]
    assert villa["text90"] == "51.5 %"
    assert sum(group["rows"] for group in columns[0]["groups"]) == N


def test_training_curves_are_thinned_and_cleaned() -> None:
    long = np.arange(1.0, 10_001.0)
    curves = {"long": long.tolist(), "odd": [1.0, float("nan"), float("inf")]}
    many = {f"curve {i}": [1.0] for i in range(9)}
    contents = replace(of_law("good", 4), training={**curves, "none": [], **many})
    training = _charts(contents)["training"]
    assert len(training) == 5
    assert len(training[0]["epoch"]) == 400
    assert training[0]["epoch"][-1] == training[0]["value"][-1] == 10_000
    assert training[1]["value"] == [1.0, None, None]
