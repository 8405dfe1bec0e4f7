"""The paper's numbers, and the counts that its text makes of them."""

import re
from collections import Counter

import pytest

from calibrant.paper.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    column,
    count,
    errata,
    lookup,
    paper_says,
    published,
    rmse_rises,
    starred,
)

ERROR = "calibration_error"


def test_there_are_200_numbers_of_which_tables_3_and_4_repeat_40() -> None:
    numbers = published()
    assert Counter(number.table for number in numbers) == {1: 60, 2: 60, 3: 40, 4: 40}
    values: dict[object, set[tuple[float, float]]] = {}
    for n in numbers:
        key = (n.data, n.network, n.training, n.recalibration, n.metric)
        values.setdefault(key, set()).add((n.mean, n.std))
    assert len(values) == 160
    assert all(len(found) == 1 for found in values.values())
    assert len(PAPER_DATA) == 10
    assert all(number.std >= 0 for number in numbers)


@pytest.mark.parametrize(
    ("where", "mean", "std"),
    [
        (("airfoil", MC_DROPOUT, "base", "none", ERROR), 25.92, 5.40),
        (("year_msd", MC_DROPOUT, "qr", "none", "nll"), 3.42, 0.01),
        (("concrete", ENSEMBLE, "base", ISOTONIC, ERROR), 121.60, 8.60),
        (("kin8nm", ENSEMBLE, "base", "none", "nll"), -1.34, 0.0),
        (("yacht", ENSEMBLE, "qr", ISOTONIC, ERROR), 71.67, 8.65),
    ],
)
def test_numbers_as_printed(
    where: tuple[str, str, str, str, str], mean: float, std: float
) -> None:
    number = lookup(*where)
    assert number is not None
    assert (number.mean, number.std) == (mean, std)


def test_what_is_not_printed_is_not_there() -> None:
    assert lookup("yacht", MC_DROPOUT, "base", ISOTONIC, "nll") is None
    assert column(MC_DROPOUT, "base", ISOTONIC, "nll") == {}


@pytest.mark.parametrize(
    ("network", "metric", "sizes"),
    [
        (MC_DROPOUT, ERROR, (10, 0, 0)),
        (ENSEMBLE, ERROR, (9, 0, 1)),
        (MC_DROPOUT, "nll", (7, 0, 3)),
        (ENSEMBLE, "nll", (6, 2, 2)),
        (MC_DROPOUT, "rmse", (3, 1, 6)),
        (ENSEMBLE, "rmse", (2, 3, 5)),
    ],
)
def test_qr_against_base(
    network: str, metric: str, sizes: tuple[int, int, int]
) -> None:
    base = column(network, metric=metric)
    found = count(column(network, "qr", metric=metric), base)
    assert tuple(map(len, found)) == sizes


def test_rises_of_the_rmse_and_starred_sets() -> None:
    assert rmse_rises(MC_DROPOUT)["yacht"] == pytest.approx(5.50 / 3.55 - 1)
    assert rmse_rises(ENSEMBLE)["yacht"] == pytest.approx(0.22, abs=0.005)
    assert rmse_rises(MC_DROPOUT)["airfoil"] == pytest.approx(0.15, abs=0.005)
    assert (len(starred(MC_DROPOUT)), len(starred(ENSEMBLE))) == (5, 7)
    assert set(starred(ENSEMBLE)) - set(starred(MC_DROPOUT)) == {"concrete", "kin8nm"}


@pytest.mark.parametrize(
    ("name", "network", "text"),
    [
        ("qr-error", MC_DROPOUT, "Lower on 10 of 10 sets"),
        ("qr-nll", ENSEMBLE, "Better on 6 sets, equal on 2, worse on 2."),
        ("qr-rmse", MC_DROPOUT, r"largest changes: yacht \+55%, airfoil \+15%"),
        ("isotonic-worsens", MC_DROPOUT, "Higher on 5 of 10 sets, .* QR on 4"),
        ("isotonic-worsens", ENSEMBLE, "Higher on 7 of 10 sets, .* QR on 8"),
        ("isotonic-qr", MC_DROPOUT, "By less on 4 of the 5 starred"),
        ("isotonic-qr", ENSEMBLE, "By less on 7 of the 7 starred"),
        ("qr-isotonic", MC_DROPOUT, "Lower on 6 of 10"),
        ("qr-isotonic", ENSEMBLE, "Lower on 7 of 10"),
        ("isotonic-large", ENSEMBLE, r"kin8nm 1.22 to 19.07"),
        ("ensemble-error", ENSEMBLE, "Higher on 5 of 10"),
        ("ensemble-isotonic", ENSEMBLE, "Higher on 7 of 10"),
        ("curve", MC_DROPOUT, "without printed numbers"),
    ],
)
def test_what_the_paper_says_is_counted(name: str, network: str, text: str) -> None:
    assert re.search(text, paper_says(name, network))


def test_errata_are_complete_sentences() -> None:
    assert len(errata()) >= 12
    for erratum in errata():
        assert erratum.place
        assert erratum.printed.endswith(".")
        assert erratum.correct.endswith(".")
