"""Arms from records: means over folds, deviations over repeats, unfinished repeats."""

import dataclasses
import math

import pytest

from calibrant.paper.ledger import LEVELS, Cell, Record
from calibrant.paper.published import (
    ENSEMBLE,
    MC_DROPOUT,
    PAPER_DATA,
    UNEXPLAINED,
    Model,
    agreement,
    likely_cause,
    lookup,
    side_by_side,
    tolerance,
)
from calibrant.paper.statistics import (
    Arm,
    ArmResults,
    FoldTable,
    Spread,
    by_arm,
    compare,
    over_sets,
)
from page_records import measured


def record(cell: Cell, **numbers: float) -> Record:
    """A record of a set with 20 test rows whose curve is the diagonal."""
    curve = tuple(range(1, LEVELS + 1))
    values = {"floor": 1.0, "seconds": 2.0, "nll": 1.0} | numbers
    return measured(cell, train_rows=80, test_rows=20, curve=curve, **values)


def cells(repeats: int, folds: int = 5, **parts: object) -> list[Cell]:
    arm: dict[str, object] = {"data": "yacht", "network": MC_DROPOUT, "folds": folds}
    arm |= parts
    return [
        Cell(**arm, repeat=repeat, fold=fold)  # type: ignore[arg-type]
        for repeat in range(repeats)
        for fold in range(folds)
    ]


def only(records: list[Record]) -> ArmResults:
    (known,) = by_arm(records).values()
    return known


def test_mean_over_folds_then_spread_over_repeats() -> None:
    # Repeat r, fold f: 10 r + f. Means over folds 2, 12, 22.
    records = [record(c, rmse=10.0 * c.repeat + c.fold) for c in cells(3)]
    summary = only(records[::-1])
    found = summary.spread("rmse")
    assert found.mean == pytest.approx(12)
    assert found.std == pytest.approx(math.sqrt(200 / 3))  # ddof 0
    assert summary.state == "3 repeats"
    assert summary.spread("floor") == Spread(1.0, 0.0)


def test_only_whole_repeats_count() -> None:
    records = [record(c, rmse=1.0 + 99 * c.repeat) for c in cells(2)][:8]
    summary = only(records)
    assert summary.spread("rmse") == Spread(1.0, 0.0)
    assert summary.state == "1 repeat, 3 more cells of unfinished ones"
    summary = only(records[:3])
    assert summary.repeats == []
    assert summary.state == "partial: 3 of 5 folds"


def test_infinite_nll_and_the_median_time() -> None:
    records = [
        record(c, nll=math.inf if c.fold == 1 else 2.0, seconds=float(c.fold))
        for c in cells(2)
    ]
    summary = only(records)
    assert summary.spread("nll") == Spread(math.inf, math.inf)
    assert summary.seconds == 2.0


def test_gap_of_the_curve() -> None:
    flat = record(cells(1)[0])
    assert flat.curve_gap == pytest.approx(0.0)
    low = dataclasses.replace(flat, curve=(0,) * LEVELS)
    assert low.curve_gap == pytest.approx(sum(range(1, 21)) / 400)


def table_of(
    numbers: dict[tuple[int, int], float], split: str = "unshuffled"
) -> FoldTable:
    folds = len({fold for _, fold in numbers})
    arm = Arm(data="yacht", split=split, folds=folds, network=MC_DROPOUT)
    records = [
        record(
            Cell(
                data="yacht",
                split=split,
                folds=folds,
                network=MC_DROPOUT,
                repeat=repeat,
                fold=fold,
            ),
            rmse=value,
        )
        for (repeat, fold), value in numbers.items()
    ]
    table = by_arm(records)[arm].table("rmse")
    assert table is not None
    return table


def test_repeats_on_the_same_folds_are_averaged_and_others_are_not() -> None:
    numbers = {(r, f): float(10 * r + f) for r in range(3) for f in range(5)}
    same = table_of(numbers)
    assert same.independent() == [10, 11, 12, 13, 14]
    assert same.overlap == 0.25
    assert len(table_of(numbers, "shuffled").independent()) == 15
    fixed = table_of({(0, 0): 1.0, (1, 0): 2.0}, "fixed")
    assert fixed.overlap == 0.0
    assert fixed.independent() == [1.0, 2.0]


def test_compared_on_common_repeats_only() -> None:
    a = table_of({(r, f): 1.0 + f for r in range(3) for f in range(5)})
    b = table_of({(r, f): 2.0 + f + r for r in (1, 4) for f in range(5)})
    found = compare(b, a)
    assert found is not None
    assert (found.repeats, found.b, found.a) == (1, 5.0, 3.0)
    assert found.test.difference == 2.0
    assert found.direction == "higher"
    assert compare(b, None) is None
    assert compare(table_of({(7, f): 1.0 for f in range(5)}), a) is None


def test_other_folds_are_not_compared() -> None:
    five = table_of({(r, f): 1.0 + f for r in range(2) for f in range(5)})
    two = table_of({(r, f): 2.0 + f for r in range(2) for f in range(2)})
    assert compare(two, five) is None
    assert compare(five, two) is None
    shuffled = table_of({(0, f): 1.0 for f in range(5)}, "shuffled")
    assert compare(shuffled, five) is None
    assert compare(five, five) is not None


def test_infinite_values_are_worse_than_finite_ones() -> None:
    places = [(0, fold) for fold in range(5)]
    finite = table_of(dict.fromkeys(places, 1.0))
    endless = table_of(dict.fromkeys(places, 1.0) | {(0, 2): math.inf})
    directions = {}
    for name, pair in {"b": (endless, finite), "a": (finite, endless)}.items():
        found = compare(*pair)
        assert found is not None
        directions[name] = found.direction
    assert directions == {"b": "higher", "a": "lower"}
    both = compare(endless, endless)
    assert both is not None
    assert both.direction == "unclear"
    assert over_sets([both], ratio=False).sets == 0


def paper_run(factor: float = 1.0, shift: float = 0.0) -> list[Record]:
    """The paper's MC dropout numbers as ours, RMSE times a factor, NLL shifted."""
    records = []
    model = Model(MC_DROPOUT)
    for data in PAPER_DATA[:9]:
        for training in ("base", "qr"):
            numbers = {}
            for metric in ("calibration_error", "rmse", "nll"):
                number = lookup(data, MC_DROPOUT, training, "none", metric)
                assert number is not None
                numbers[metric] = number.mean
            numbers["rmse"] *= factor
            numbers["nll"] += shift
            arm = model.arm(data, training)
            records += [
                record(Cell(**dataclasses.asdict(arm), fold=fold), **numbers)
                for fold in range(5)
            ]
    return records


@pytest.mark.parametrize(
    ("factor", "shift", "agreeing"),
    [(1.0, 0.0, 9), (1.049, 0.09, 9), (0.951, -0.099, 9), (1.0, 0.11, 0)],
)
def test_agreement_with_the_paper(factor: float, shift: float, agreeing: int) -> None:
    model = Model(MC_DROPOUT)
    pairs = side_by_side(by_arm(paper_run(factor, shift)), model)
    assert len(pairs) == 9 * 2 * 3
    found = agreement(pairs)
    assert len(found.sets) == 9
    assert len(found.base) == len(found.qr) == len(found.both) == agreeing


def test_a_small_rmse_may_be_a_hundredth_off_and_a_large_one_five_percent() -> None:
    pairs = side_by_side(by_arm(paper_run(1.08)), Model(MC_DROPOUT))
    agreeing = {p.paper.data for p in pairs if p.paper.metric == "rmse" and p.agrees}
    assert agreeing == {"kin8nm"}
    causes = {p.paper.data: p.cause for p in pairs if not p.agrees}
    assert "hull forms" in causes["yacht"]
    assert causes["airfoil"] == "unexplained"


def test_a_cause_fits_the_number_that_it_stands_beside() -> None:
    def cause(
        data: str, difference: float, *, metric: str = "nll", column: str = "base"
    ) -> str:
        training, after = (column + " none").split()[:2]
        number = lookup(data, MC_DROPOUT, training, after, metric)
        assert number is not None
        return likely_cause(number, epochs=100, difference=difference)

    error = "calibration_error"
    assert "fits better" in cause("kin8nm", -0.2)
    assert cause("kin8nm", 1.0, metric=error, column="base isotonic") == UNEXPLAINED
    assert cause("kin8nm", -1.0, metric=error, column="base isotonic") == UNEXPLAINED
    assert cause("kin8nm", 0.2) == UNEXPLAINED
    assert "separate implementation" in cause("concrete", 0.2)
    assert cause("concrete", 9.0, metric=error, column="base isotonic") == UNEXPLAINED
    assert cause("concrete", 0.2, column="qr") == UNEXPLAINED
    assert "within both" in cause("boston", 0.19)
    assert cause("boston", 0.3) == UNEXPLAINED
    assert cause("boston", 0.12, column="qr") == UNEXPLAINED


def test_ensembles_that_fit_better_do_not_overfit_more() -> None:
    number = lookup("fish", ENSEMBLE, "base", "none", "nll")
    assert number is not None
    assert "overfit more" in likely_cause(number, epochs=100, difference=0.5)
    assert likely_cause(number, epochs=100, difference=-0.5) == UNEXPLAINED
    assert "second guess" in likely_cause(number, epochs=64, difference=-0.5)


def test_tolerance_of_the_error_uses_both_deviations() -> None:
    number = lookup("airfoil", MC_DROPOUT, "base", "none", "calibration_error")
    assert number is not None
    ours = Spread(30.0, 2.0)
    assert tolerance(number, ours, repeats=5) == pytest.approx(
        2 * math.sqrt(5.4**2 + 2**2) + 0.005
    )
    assert tolerance(number, ours, repeats=1) == pytest.approx(
        2 * math.sqrt(2) * 5.4 + 0.005
    )
