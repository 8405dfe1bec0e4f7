"""Splits are fair, peers are conformalized as published, and summaries add up."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from bench import default as bench_default
from bench._tables import (
    PACKAGES,
    SPLITS,
    Array,
    Table,
    _numbers,
    fair_split,
    load_table,
    measures,
    split,
)
from bench.summary import BUNDLED, OTHERS, PEERS, Results
from calibrant import Empirical, Gaussian, QuantileTable

RNG = np.random.default_rng(0)


def cell(data: str, method: str, seed: int, crps: float, **more: float) -> dict:  # type: ignore[type-arg]
    known = {"calibration_error": 2.0, "floor": 1.0, "coverage_90": 0.9}
    return {"data": data, "method": method, "seed": seed, "crps": crps} | known | more


def test_every_table_has_its_splits_and_every_method_its_place() -> None:
    assert len(SPLITS) == 15
    assert set(BUNDLED) == set(SPLITS) - set(PACKAGES)
    arms = {"default", "no pool factor", *bench_default.ARMS}
    assert {*arms, *PEERS, *OTHERS} - {"calibrant 0.1"} == set(bench_default.METHODS)
    for data in ("diabetes", *BUNDLED):
        assert SPLITS[data] == (10 if len(load_table(data).y) < 4000 else 3)


def test_frames_become_numbers() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "name": ["a", "b", "c", "d"],
            "cut": ["Fair", "Ideal", "Good", "Fair"],
            "air": ["no", "yes", "no", "no"],
            "from": ["USA", "Japan", "Europe", "USA"],
            "size": [1, 2, 3, 4],
            "price": [10.0, 20.0, 30.0, np.nan],
        }
    )
    x, y = _numbers(frame, "price", "name")
    assert y.tolist() == [10, 20, 30]
    # Rank of the cut, air, one column for each origin, size.
    assert x.tolist() == [[0, 0, 0, 0, 1, 1], [4, 1, 0, 1, 0, 2], [1, 0, 1, 0, 0, 3]]


def test_test_rows_have_no_copies_among_the_others() -> None:
    x = RNG.integers(0, 9, size=(200, 3)).astype(float)
    learn, test = fair_split(x, 3)
    plain, same = split(200, 3)
    assert test.tolist() == same.tolist()
    seen = {tuple(row) for row in x[test]}
    kept = [row for row in plain if tuple(x[row]) not in seen]
    assert learn.tolist() == kept
    assert len(kept) < len(plain)


@pytest.mark.parametrize(
    "predictive",
    [Empirical(torch.zeros(5, 2)), QuantileTable([0.2, 0.8], [[0.0, 0.0]] * 2)],
)
def test_the_nll_is_not_a_number_where_there_is_no_density(
    predictive: Empirical | QuantileTable,
) -> None:
    y = np.array([0.0, 1.0])
    assert np.isnan(measures(predictive, y, all_y=y)["nll"])


def test_pairs_of_quantiles_are_conformalized() -> None:
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    y = RNG.normal(size=999)
    quantiles = np.tile([-0.3, -2.0, 0.1, 2.0, 0.5], (999, 1))
    moved = quantiles + bench_default._conformal_moves(levels, quantiles, y)
    assert moved[0, 2] == 0.1
    # With 999 rows and 1,000 times the level whole, the share is exact.
    for low, high, wanted in ((0, 4, 800), (1, 3, 500)):
        assert int(((moved[:, low] <= y) & (y <= moved[:, high])).sum()) == wanted
    assert np.allclose(moved[:, [0, 4]].mean(1), 0.1)


def test_few_rows_take_the_widest_score() -> None:
    quantiles = np.array([[-1.0, 1.0], [-1.0, 1.0]])
    moves = bench_default._conformal_moves(
        np.array([0.05, 0.95]), quantiles, np.array([3.0, 0.0])
    )
    assert moves.tolist() == [-2.0, 2.0]


def test_ratios_are_to_the_best_peer_on_common_splits() -> None:
    rows = [
        *(cell("yacht", "default", seed, 1.0 + seed) for seed in range(4)),
        *(cell("yacht", "ngboost", seed, 2.0) for seed in range(4)),
        cell("yacht", "quantile forest", 0, 9.0),
        cell("yacht", "quantile forest", 0, 0.5),  # the later one counts
        cell("yacht", "plain ensemble", 0, 0.1),
        cell("yacht", "realmlp", 9, 0.1),  # no common split
    ]
    results = Results(rows)
    best = results.best("yacht", "default")
    assert best is not None
    assert (best.rival, best.ratio, best.p, best.splits) == ("quantile forest", 2, 1, 1)
    assert results.compare("yacht", "default", "realmlp") is None
    assert results.best("boston", "default") is None
    pair = results.compare("yacht", "default", "ngboost")
    assert pair is not None
    assert pair.ratio == 2.5 / 2
    # The plain t-test with its variance of 1/J made 1/J + 1/9.
    plain = stats.ttest_1samp([-1.0, 0.0, 1.0, 2.0], 0.0).statistic
    t = plain * np.sqrt((1 / 4) / (1 / 4 + 1 / 9))
    assert pair.p == pytest.approx(2 * stats.t.sf(t, 3))


def test_a_summary_counts_tables() -> None:
    five = "5 x catboost, variance"
    rows = [
        cell("yacht", "default", 0, 0.5, fit_seconds=2.0),
        cell("yacht", five, 0, 1.0, fit_seconds=1.0),
        cell("yacht", "plain ensemble", 0, 1.0),
        cell("cars", "default", 0, 2.0, fit_seconds=2.0, calibration_error=6.0),
        cell("cars", five, 0, 1.0, fit_seconds=4.0),
        cell("cars", "plain ensemble", 0, 0.1),  # not one of the bundled tables
    ]
    text = "\n".join(Results(rows).summary())
    assert "best peer: at most 1 on 1 of 2 tables, largest 2.000 (cars)" in text
    assert "geometric mean 1.000" in text
    assert "plain ensemble: at most 1 on 1 of 1 tables" in text
    assert "calibrant 0.1" not in text
    assert "median 4.00, largest 6.00 (cars)" in text
    assert "cover 90.0 %" in text
    assert "fit time over that of five CatBoost fits: 1.00" in text
    assert Results(rows).summary("none") == ["No cells of none."]


def test_a_table_for_pages() -> None:
    rows = [
        *(cell("red_wine", "default", seed, 0.5) for seed in range(2)),
        cell("red_wine", "ngboost", 0, 0.25),
        cell("yacht", "default", 0, 1.0),
        cell("cars", "no map", 0, 1.0),
    ]
    assert Results(rows).markdown(["default", "absent", "ngboost"]).splitlines() == [
        "| data (splits) | default | ngboost |",
        "| --- | --- | --- |",
        "| red wine (2 or 1) | 0.5 (2.0) | **0.25** (2.0) |",
        "| yacht (1) | **1** (2.0) | - |",
    ]


def test_a_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fits: list[tuple[int, int]] = []

    def fit(x: Array, y: Array, seed: int) -> bench_default.Predict:
        fits.append((seed, len(x)))
        return lambda new: Gaussian(np.full(len(new), y.mean()), y.std())

    made = bench_default.Method
    methods = {"default": made(fit), "absent": made(fit, "no_such_package")}
    monkeypatch.setattr(bench_default, "METHODS", methods)
    path = tmp_path / "cells.jsonl"
    command = ["--out", str(path), "--data", "yacht", "--splits"]
    bench_default.main([*command, "1"])
    bench_default.main([*command, "2"])
    assert fits == [(0, 278), (1, 278)]
    shown = capsys.readouterr().out
    assert "Method absent is left out: no_such_package is not installed." in shown
    assert "yacht | default | 2 |" in shown
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {"crps", "fit_seconds", "predict_seconds"} <= set(rows[0])
    bench_default.main([*command, "1", "--label", "other"])
    bench_default.main(["--cells", str(path)])
    assert "yacht | other | 1 |" in capsys.readouterr().out
    assert len(fits) == 3


@pytest.mark.parametrize("name", [name for name in PEERS if name != "realmlp"])
def test_peers_predict_distributions(name: str) -> None:
    fit, package = bench_default.METHODS[name]
    pytest.importorskip(package)
    x = RNG.normal(size=(80, 2))
    table = Table(x, x[:, 0] + RNG.normal(size=80))
    predictive = fit(table.x, table.y, 0)(x[:7])
    assert predictive.batch_shape == (7,)
    assert bool((predictive.stddev > 0).all())
