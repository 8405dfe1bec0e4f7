"""Who learns from which rows, and who judges which."""

import numpy as np
import pytest

from calibrant._checks import InputError
from calibrant.estimator._design import Design, design_for
from calibrant.estimator._folds import Blocks


def make(
    name: str | None,
    n: int = 30,
    *,
    members: int = 3,
    time: bool = False,
    share: float = 0.2,
) -> Design:
    return design_for(
        name,
        Blocks(np.arange(n), np.arange(n) if time else None),
        members=members,
        folds=5,
        share=share,
        random=np.random.default_rng(0),
    )


def test_nothing_and_train_see_all_rows() -> None:
    for name, judged in ((None, 0), ("train", 30)):
        design = make(name)
        assert [len(rows) for rows in design.rows] == [30, 30, 30]
        (unit,) = design.units
        assert (unit.members, unit.weight) == ((0, 1, 2), 1.0)
        assert len(unit.calibration) == judged


def test_held_out_rows_are_seen_by_no_member() -> None:
    design = make("held_out")
    (unit,) = design.units
    assert len(unit.calibration) == 6
    for rows in design.rows:
        assert sorted([*rows, *unit.calibration]) == list(range(30))


def test_held_out_in_time_are_the_latest() -> None:
    design = make("held_out", time=True)
    assert design.units[0].calibration.tolist() == list(range(24, 30))


def test_each_fold_is_judged_by_members_of_its_own() -> None:
    design = make("cross_fit", 32)
    assert len(design.rows) == 15
    judged = np.concatenate([unit.calibration for unit in design.units])
    assert sorted(judged) == list(range(32))
    assert sum(unit.weight for unit in design.units) == pytest.approx(1)
    for unit in design.units:
        assert unit.weight == len(unit.calibration) / 32
        for member in unit.members:
            rows = design.rows[member]
            assert sorted([*rows, *unit.calibration]) == list(range(32))


def test_cross_fit_in_time_is_by_stretches() -> None:
    judged = [unit.calibration.tolist() for unit in make("cross_fit", time=True).units]
    assert judged == np.arange(30).reshape(5, 6).tolist()


def test_out_of_bag() -> None:
    design = make("out_of_bag", members=16)
    assert design.unseen is not None
    assert design.unseen.shape == (16, 30)
    for rows, unseen in zip(design.rows, design.unseen, strict=True):
        assert sorted([*rows, *np.flatnonzero(unseen)]) == list(range(30))
    (unit,) = design.units
    assert (design.unseen.sum(0)[unit.calibration] >= 2).all()
    assert len(unit.calibration) >= 24


def test_out_of_bag_needs_members() -> None:
    with pytest.raises(InputError, match=r"with members=5 .* only \d+ of 30.*about 16"):
        make("out_of_bag", members=5)


def test_out_of_bag_is_refused_with_time() -> None:
    with pytest.raises(InputError, match=r'neighbors in time.*"cross_fit"'):
        make("out_of_bag", time=True)


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"one of None, 'train', .* got 'crossfit'"):
        make("crossfit")
