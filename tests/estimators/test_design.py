"""Who learns from which rows, and who judges which."""

import numpy as np
import pytest

from calibrant._checks import InputError
from calibrant.estimators._design import Design, design_for
from calibrant.estimators._folds import Blocks


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
        assert len(design.calibration) == judged
        assert design.unseen is None
        assert design.weights((0, 1)) is None


def test_held_out_rows_are_seen_by_no_member() -> None:
    design = make("held_out")
    assert len(design.calibration) == 6
    for rows in design.rows:
        assert sorted([*rows, *design.calibration]) == list(range(30))


def test_held_out_in_time_are_the_latest() -> None:
    assert make("held_out", time=True).calibration.tolist() == list(range(24, 30))


def test_every_row_has_members_that_have_not_seen_it() -> None:
    design = make("out_of_fold", 32)
    assert len(design.rows) == 15
    assert design.unseen is not None
    assert design.unseen.shape == (3, 32)
    for number, rows in enumerate(design.rows):
        _, left_out = np.nonzero(design.unseen == number)
        assert sorted([*rows, *left_out]) == list(range(32))
    # The partitions differ, and the unseen members of a row are of all of them.
    assert (design.unseen // 5 == np.arange(3)[:, None]).all()
    assert len(np.unique(design.unseen % 5, axis=0)) == 3


def test_weights_of_a_pool_are_those_of_unseen_members_alone() -> None:
    design = make("out_of_fold", 32)
    weights = design.weights((0, 2))
    assert weights is not None
    np.testing.assert_allclose(weights.sum(0), 1)
    assert (weights > 0).sum() == 2 * 32
    for number, rows in enumerate(design.rows):
        assert not weights[number, rows].any()


def test_folds_in_time_are_stretches() -> None:
    design = make("out_of_fold", time=True)
    assert design.unseen is not None
    stretches = np.repeat(np.arange(5), 6)
    assert (design.unseen == stretches + 5 * np.arange(3)[:, None]).all()


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"one of None, 'train', .* got 'crossfit'"):
        make("crossfit")
