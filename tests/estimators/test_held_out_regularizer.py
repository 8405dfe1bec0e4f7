"""Quantile regularization on rows whose likelihood is not learned from: who sees what.

At a fixed number of epochs; all rows together choose it otherwise.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from calibrant import CalibratedRegressor, InputError
from calibrant.estimators import networks
from calibrant.estimators.folds import Blocks, Design, design_for
from calibrant.training import InterruptedWarning, TrainingData

Array = npt.NDArray[np.float64]
Make = Callable[..., CalibratedRegressor]
Rows = tuple[Array, Array]

HELD_OUT: dict[str, Any] = {
    "learners": ("network",),
    "folds": 4,
    "members": 2,
    "strength": 20.0,
    "regularize_on": "held_out",
    "patience": None,
}


def design(name: str | None, n: int = 60, folds: int = 4, **options: Any) -> Design:
    blocks = Blocks(np.arange(n), options.pop("time", None))
    random = np.random.default_rng(0)
    return design_for(name, blocks, members=3, folds=folds, random=random, **options)


def test_a_member_has_a_fold_for_its_regularizer_and_one_for_the_map() -> None:
    plain, apart = design("out_of_fold"), design("out_of_fold", regularized_share=0.1)
    assert plain.regularized is None
    assert apart.regularized is not None
    assert apart.unseen is not None
    np.testing.assert_array_equal(apart.unseen, plain.unseen)
    for member, (own, other) in enumerate(
        zip(apart.rows, apart.regularized, strict=True)
    ):
        partition, fold = divmod(member, 4)
        unseen = np.flatnonzero(apart.unseen[partition] == member)
        following = 4 * partition + (fold + 1) % 4
        np.testing.assert_array_equal(
            other, np.flatnonzero(apart.unseen[partition] == following)
        )
        parts = np.concatenate([own, other, unseen])
        np.testing.assert_array_equal(np.sort(parts), np.arange(60))
        np.testing.assert_array_equal(
            plain.rows[member], np.sort(np.concatenate([own, other]))
        )


@pytest.mark.parametrize("name", ["held_out", "train", None])
def test_without_folds_a_share_of_the_learned_rows_is_kept_for_it(
    name: str | None,
) -> None:
    plain, apart = design(name), design(name, regularized_share=0.25)
    np.testing.assert_array_equal(apart.calibration, plain.calibration)
    assert apart.regularized is not None
    for own, other, learned in zip(
        apart.rows, apart.regularized, plain.rows, strict=True
    ):
        assert len(other) == round(0.25 * len(learned))
        np.testing.assert_array_equal(np.sort(np.concatenate([own, other])), learned)
    assert len({tuple(other) for other in apart.regularized}) == 3


def test_two_folds_are_refused(cheap: Make, line: Rows) -> None:
    with pytest.raises(InputError, match=r"held_out. needs at least 3 folds"):
        cheap(**HELD_OUT | {"folds": 2}).fit(*line)


def members_of(model: CalibratedRegressor, x: Array) -> tuple[Array, Array]:
    """Means and spreads of each member, ``(members, passes * n)``."""
    members = model.model_.members.networks
    assert members is not None
    parts = members.predict(x)
    mean = torch.cat([part.mean for part in parts]).reshape(len(members), -1)
    spread = torch.cat([part.stddev for part in parts]).reshape(len(members), -1)
    return mean.numpy(), spread.numpy()


class Line(nn.Module):
    """A module of one's own."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.layer(x).unbind(-1)
        return mean, 0.1 + nn.functional.softplus(spread)


@pytest.mark.parametrize("network", ["deep_ensemble", "mc_dropout", Line])
def test_who_sees_the_target_of_a_row(
    network: Any, cheap: Make, line: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = line
    designs: list[Design] = []
    seen: list[TrainingData] = []

    def fit_networks(table: Any, design: Design, *given: Any, **options: Any) -> Any:
        designs.append(design)
        return original(table, design, *given, **options)

    def train(module: Any, data: TrainingData, *given: Any, **options: Any) -> Any:
        seen.append(data)
        return original_train(module, data, *given, **options)

    original, original_train = networks.fit_networks, networks.train
    monkeypatch.setattr("calibrant.estimators.regressor.fit_networks", fit_networks)
    monkeypatch.setattr(networks, "train", train)
    model = cheap(**HELD_OUT, network=network).fit(x, y)
    row, other = 7, y.copy()
    other[row] += 10
    moved = cheap(**HELD_OUT, network=network).fit(x, other)
    before, after = members_of(model, x), members_of(moved, x)
    own = designs[0]
    assert own.unseen is not None
    assert own.regularized is not None
    for member, (learned, apart) in enumerate(
        zip(own.rows, own.regularized, strict=True)
    ):
        same = [
            np.array_equal(old[member], new[member])
            for old, new in zip(before, after, strict=True)
        ]
        if member in own.unseen[:, row]:
            assert row not in learned
            assert row not in apart
            assert all(same)
        else:
            assert not any(same)
        if row in apart:
            assert row not in learned
    given = [(rows, apart) for data in seen for rows, apart in pairs(data)]
    expected = [*zip(own.rows, own.regularized, strict=True)]
    for (rows, apart), (learned, held_out) in zip(given, expected, strict=False):
        np.testing.assert_array_equal(rows.numpy(), learned)
        np.testing.assert_array_equal(apart.numpy(), held_out)


def pairs(data: TrainingData) -> list[tuple[Tensor, Tensor]]:
    assert data.regularized is not None
    return list(zip(data.rows, data.regularized, strict=True))


@pytest.mark.parametrize("recalibrate_on", ["held_out", None])
def test_early_stopping_has_rows_of_its_own(
    recalibrate_on: str | None,
    cheap: Make,
    line: Rows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[TrainingData] = []

    def train(module: Any, data: TrainingData, *given: Any, **options: Any) -> Any:
        seen.append(data)
        return original(module, data, *given, **options)

    original = networks.train
    monkeypatch.setattr(networks, "train", train)
    settings = HELD_OUT | {"recalibrate_on": recalibrate_on, "patience": 2}
    cheap(**settings).fit(*line)
    (data,) = seen
    assert data.held_out is not None
    for (rows, apart), stopping in zip(pairs(data), data.held_out, strict=True):
        together = torch.cat([rows, apart, stopping])
        assert len(together.unique()) == len(together)


def test_it_widens_spreads_that_flatter_training_rows(cheap: Make) -> None:
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (120, 6))
    y = x[:, 0] + random.standard_normal(120)
    settings = HELD_OUT | {"hidden": (64,), "epochs": 60, "bins": 0}
    held_out = members_of(cheap(**settings).fit(x, y), x)[1].mean()
    settings["regularize_on"] = "train"
    train = members_of(cheap(**settings).fit(x, y), x)[1].mean()
    assert held_out > 1.1 * train


def test_trees_keep_strength_0(cheap: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightgbm")
    strengths: list[float] = []

    def fit_trees(*_: Any, strength: float, **__: Any) -> Any:
        strengths.append(strength)
        raise KeyboardInterrupt

    monkeypatch.setattr("calibrant.estimators.regressor.fit_trees", fit_trees)
    random = np.random.default_rng(2)
    x = random.uniform(-1, 1, (120, 2))
    y = x[:, 0] + random.standard_normal(120)
    both = HELD_OUT | {"learners": ("network", "boosting")}
    for changes in (
        {},
        {"regularize_on": "train"},
        {"regularize_on": "train", "regularizer": "pit_entropy", "strength": -1},
    ):
        with pytest.warns(InterruptedWarning), pytest.raises(KeyboardInterrupt):
            cheap(**both | changes).fit(x, y)
    assert strengths == [0.0, 20.0, 0.0]


def test_a_head_without_a_location_needs_the_whole_gradient(
    cheap: Make, line: Rows
) -> None:
    settings = HELD_OUT | {"head": "gaussian_mixture"}
    with pytest.raises(InputError, match=r"GaussianMixture has no location.*whole"):
        cheap(**settings).fit(*line)
    cheap(**settings, regularize_whole=True).fit(*line)
