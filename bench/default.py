"""The default, parts of it taken away, and what people use instead, on seeded splits.

    python -m bench.default --out results/default/cells.jsonl

All methods see the same rows: 90 % to learn from, without copies of the test rows.
Finished cells are kept; the same command goes on after them, also in several processes
at once. ``--only-print`` prints what is there. A method or table whose package is not
installed is left out: ``pip install "calibrant[bench-default]"`` has them all.
"""

import argparse
import contextlib
import io
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from bench._tables import (
    PACKAGES,
    SPLITS,
    Array,
    Ledger,
    Rows,
    fair_split,
    load_table,
    measures,
)
from bench.summary import Results
from calibrant import CalibratedRegressor, Empirical, Gaussian, QuantileTable
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators.pool import Pool

Predict = Callable[[Array], AbstractDistribution]
Fit = Callable[[Array, Array, int], Predict]

#: The default with a part taken away or changed.
ARMS: dict[str, dict[str, Any]] = {
    "no encoding": {"bins": 0},
    "networks": {"learners": ("network",)},
    "trees": {"learners": ("boosting",)},
    "no map": {"recalibrator": None},
    "no rounding": {"options": {"round_targets": False}},
    "strength 1": {"strength": 1.0},
    "recalibration training": {
        "loss": "nll",
        "regularizer": "pit_entropy",
        "strength": -1.0,
    },
    "held-out 5": {"strength": 5.0, "options": {"regularize_on": "held_out"}},
    "held-out 20": {"strength": 20.0, "options": {"regularize_on": "held_out"}},
}
_HELD_OUT = 0.2
_TWENTIETHS = np.arange(1, 20) / 20
_PERCENTILES = np.arange(1, 100) / 100
_NGBOOST_ROUNDS, _NGBOOST_PATIENCE = 2000, 50


def default(x: Array, y: Array, seed: int, **options: Any) -> Predict:  # noqa: ANN401
    """``CalibratedRegressor()``, or with options."""
    model = CalibratedRegressor(random_state=seed, **options)
    return model.fit(x, y).predict_distribution


def _arm(options: dict[str, Any]) -> Fit:
    return lambda x, y, seed: default(x, y, seed, **options)


def no_pool_factor(x: Array, y: Array, seed: int) -> Predict:
    """The default, with the map of pools as small as those that were measured."""
    plain = property(lambda pool: 1 / pool.designs[0].pool_size)
    with mock.patch.object(Pool, "inverse_size", plain):
        return default(x, y, seed)


def plain_ensemble(x: Array, y: Array, seed: int) -> Predict:
    """Five networks of the paper's settings, without its regularizer."""
    model = CalibratedRegressor.paper("deep_ensemble", strength=0.0, random_state=seed)
    return model.fit(x, y).predict_distribution


def _catboost(seed: int, **options: Any) -> Any:  # noqa: ANN401
    from catboost import CatBoostRegressor

    return CatBoostRegressor(
        random_seed=seed,
        verbose=False,
        thread_count=1,
        allow_writing_files=False,
        **options,
    )


def _held_out(n: int, seed: int) -> tuple[Rows, Rows]:
    """Four fifths of the rows to learn from, and the others."""
    order = np.random.default_rng(seed).permutation(n)
    count = round(_HELD_OUT * n)
    return order[count:], order[:count]


def catboost_conformal(x: Array, y: Array, seed: int) -> Predict:
    """CatBoost on four fifths of the rows, the residuals of the others around it."""
    learned, held_out = _held_out(len(y), seed)
    model = _catboost(seed).fit(x[learned], y[learned])
    residuals = np.sort(y[held_out] - model.predict(x[held_out], thread_count=1))

    def predict(new: Array) -> AbstractDistribution:
        return Empirical(model.predict(new, thread_count=1) + residuals[:, None])

    return predict


def catboost_variance(x: Array, y: Array, seed: int) -> Predict:
    """Five CatBoost models with a variance; a normal with the moments of their mix."""
    loss = {"loss_function": "RMSEWithUncertainty", "iterations": 1000}
    models = [_catboost(5 * seed + i, **loss).fit(x, y) for i in range(5)]

    def predict(new: Array) -> AbstractDistribution:
        found = np.stack(
            [
                model.predict(
                    new, prediction_type="RMSEWithUncertainty", thread_count=1
                )
                for model in models
            ]
        )
        means, variances = found[..., 0], found[..., 1]
        return Gaussian(means.mean(0), np.sqrt(variances.mean(0) + means.var(0)))

    return predict


def ngboost(x: Array, y: Array, seed: int) -> Predict:
    """NGBoost with a normal, stopped early on a tenth of the rows."""
    from ngboost import NGBRegressor

    model = NGBRegressor(
        n_estimators=_NGBOOST_ROUNDS,
        early_stopping_rounds=_NGBOOST_PATIENCE,
        validation_fraction=0.1,
        random_state=seed,
        verbose=False,
    )
    with contextlib.redirect_stdout(io.StringIO()):  # it prints where the rows are from
        model.fit(x, y)

    def predict(new: Array) -> AbstractDistribution:
        # By itself it predicts with all rounds, also those after the best.
        found = model.pred_dist(new, max_iter=model.best_val_loss_itr)
        return Gaussian(found.params["loc"], found.params["scale"])

    return predict


def lightgbm_quantiles(x: Array, y: Array, seed: int) -> Predict:
    """LightGBM quantiles on four fifths of the rows, conformalized on the others.

    Each symmetric pair moves by conformalized quantile regression (Romano et al.,
    2019); then the quantiles are sorted.
    """
    from lightgbm import LGBMRegressor

    learned, held_out = _held_out(len(y), seed)
    models = [
        LGBMRegressor(
            objective="quantile", alpha=level, n_jobs=1, verbosity=-1, random_state=seed
        ).fit(x[learned], y[learned])
        for level in _TWENTIETHS
    ]

    def quantiles(new: Array) -> Array:
        return np.column_stack([model.predict(new) for model in models])

    moves = _conformal_moves(_TWENTIETHS, quantiles(x[held_out]), y[held_out])

    def predict(new: Array) -> AbstractDistribution:
        return QuantileTable(_TWENTIETHS, np.sort(quantiles(new) + moves, axis=-1))

    return predict


def _conformal_moves(levels: Array, quantiles: Array, y: Array) -> Array:
    """What to add to each quantile, shape ``(k,)``; nothing to the median."""
    moves = np.zeros(len(levels))
    for low in range(len(levels) // 2):
        high = len(levels) - 1 - low
        scores = np.sort(np.maximum(quantiles[:, low] - y, y - quantiles[:, high]))
        # Less what rounding adds: 0.95 - 0.05 is a bit more than 0.9.
        rank = math.ceil((len(y) + 1) * (levels[high] - levels[low]) - 1e-9)
        moves[high] = scores[min(rank, len(y)) - 1]
        moves[low] = -moves[high]
    return moves


def quantile_forest(x: Array, y: Array, seed: int) -> Predict:
    """Quantile regression forest, all percentiles."""
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(random_state=seed, n_jobs=1).fit(x, y)

    def predict(new: Array) -> AbstractDistribution:
        found = model.predict(new, quantiles=_PERCENTILES.tolist())
        return QuantileTable(_PERCENTILES, np.sort(found, axis=-1))

    return predict


def realmlp(x: Array, y: Array, seed: int) -> Predict:
    """RealMLP with its tuned defaults and the pinball loss of all percentiles."""
    from pytabkit import RealMLP_TD_Regressor

    loss = f"multi_pinball({','.join(f'{level:.2f}' for level in _PERCENTILES)})"
    model = RealMLP_TD_Regressor(
        device="cpu",
        random_state=seed,
        n_cv=1,
        n_threads=1,
        train_metric_name=loss,
        val_metric_name=loss,
    )
    with _quiet_lightning():
        model.fit(x, y)

    def predict(new: Array) -> AbstractDistribution:
        with _quiet_lightning():
            found = np.asarray(model.predict(new), dtype=np.float64)
        return QuantileTable(_PERCENTILES, np.sort(found, axis=-1))

    return predict


@contextlib.contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Keep Lightning from telling about devices and its own products."""
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Method(NamedTuple):
    """How a method is fitted, and the package that it needs."""

    fit: Fit
    package: str = "calibrant"


METHODS = {
    "default": Method(default),
    **{name: Method(_arm(options)) for name, options in ARMS.items()},
    "no pool factor": Method(no_pool_factor),
    "plain ensemble": Method(plain_ensemble),
    "catboost conformal": Method(catboost_conformal, "catboost"),
    "5 x catboost, variance": Method(catboost_variance, "catboost"),
    "ngboost": Method(ngboost, "ngboost"),
    "lightgbm quantiles + CQR": Method(lightgbm_quantiles, "lightgbm"),
    "quantile forest": Method(quantile_forest, "quantile_forest"),
    "realmlp": Method(realmlp, "pytabkit"),
}


def run(data: str, method: str, seed: int) -> dict[str, float]:
    """Fit on 90 % and measure on the rest; times are those of one thread."""
    fit, package = METHODS[method]
    import_module(package)  # it is not the fit that takes this time
    table = load_table(data)
    learn, test = fair_split(table.x, seed)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        started = time.process_time()
        predict = fit(table.x[learn], table.y[learn], seed)
        fitted = time.process_time()
        predictive = predict(table.x[test])
        _ = predictive.mean, predictive.stddev, predictive.interval(0.9)
        predicted = time.process_time()
        found = measures(predictive, table.y[test], all_y=table.y)
    return found | {
        "fit_seconds": round(fitted - started, 2),
        "predict_seconds": round(predicted - fitted, 4),
    }


def _finish(ledger: Ledger, label: str, data: str, method: str, seed: int) -> None:
    """Run a cell, unless another process has."""
    key: dict[str, object] = {"data": data, "method": label, "seed": seed}
    if not ledger.has(**key):
        ledger.add(**key, **run(data, method, seed))


def _installed(names: list[str], packages: dict[str, str], what: str) -> list[str]:
    """Names whose package is there; a line tells of each that is left out."""
    found = []
    for name in names:
        package = packages.get(name)
        if package is None or find_spec(package) is not None:
            found.append(name)
        else:
            print(f"{what} {name} is left out: {package} is not installed.")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cells that are missing, then print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(SPLITS), choices=SPLITS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--label", help="what the method is called in the results")
    files = parser.add_mutually_exclusive_group(required=True)
    files.add_argument("--out", type=Path, help="file of cells, which grows")
    files.add_argument("--cells", type=Path, help="file of cells, which is only read")
    parser.add_argument("--splits", type=int, help="at most so many of each table")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--compare", default="default", help="method of the summary")
    parser.add_argument("--only-print", action="store_true")
    given = parser.parse_args(arguments)
    ledger = Ledger(given.out or given.cells)
    if given.out and not given.only_print:
        needed = {name: method.package for name, method in METHODS.items()}
        methods = _installed(given.methods, needed, "Method")
        cells = [
            (given.label or method, data, method, seed)
            for data in _installed(given.data, PACKAGES, "Table")
            for seed in range(min(SPLITS[data], given.splits or SPLITS[data]))
            for method in methods
        ]
        Parallel(n_jobs=given.jobs)(delayed(_finish)(ledger, *cell) for cell in cells)
    results = Results(ledger.rows)
    print(results.table())
    print(*results.summary(given.compare), sep="\n")


if __name__ == "__main__":
    main()
