"""The paper's numbers, and the counts that its text makes of them."""

from collections import Counter

import pytest

from calibrant.errors import InputError
from calibrant.paper.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    Count,
    PublishedArm,
    count,
    errata,
    lookup,
    paper_says,
    published,
    rises_less,
    rmse_rises,
    starred,
)

ERROR = "calibration_error"


def sizes(counts: Count) -> tuple[int, int, int]:
    return len(counts.lower), len(counts.equal), len(counts.higher)


def qr_against_base(network: str, metric: str, **options: float) -> Count:
    arms = PublishedArm(network, "qr"), PublishedArm(network)
    return count(*arms, metric, **options)  # type: ignore[arg-type]


def test_there_are_200_numbers_of_which_tables_3_and_4_repeat_40() -> None:
    numbers = published()
    assert Counter(number.table for number in numbers) == {1: 60, 2: 60, 3: 40, 4: 40}
    keys = [(n.data, n.network, n.training, n.recalibration, n.metric) for n in numbers]
    assert len(set(keys)) == 160
    values: dict[object, set[tuple[float, float]]] = {}
    for key, number in zip(keys, numbers, strict=True):
        values.setdefault(key, set()).add((number.mean, number.std))
    assert all(len(found) == 1 for found in values.values())
    assert {number.data for number in numbers} == set(PAPER_DATA)
    assert all(number.std >= 0 for number in numbers)


@pytest.mark.parametrize(
    ("data", "arm", "metric", "mean", "std"),
    [
        ("airfoil", PublishedArm(MC_DROPOUT), ERROR, 25.92, 5.40),
        ("year_msd", PublishedArm(MC_DROPOUT, "qr"), "nll", 3.42, 0.01),
        ("concrete", PublishedArm(ENSEMBLE, "base", ISOTONIC), ERROR, 121.60, 8.60),
        ("kin8nm", PublishedArm(ENSEMBLE), "nll", -1.34, 0.0),
        ("yacht", PublishedArm(ENSEMBLE, "qr", ISOTONIC), ERROR, 71.67, 8.65),
    ],
)
def test_numbers_as_printed(
    data: str, arm: PublishedArm, metric: str, mean: float, std: float
) -> None:
    number = lookup(data, arm, metric)
    assert number is not None
    assert (number.mean, number.std) == (mean, std)


def test_what_is_not_printed_is_not_there() -> None:
    recalibrated = PublishedArm(MC_DROPOUT, "base", ISOTONIC)
    assert lookup("yacht", recalibrated, "nll") is None
    with pytest.raises(InputError, match="the paper prints no nll"):
        count(recalibrated, PublishedArm(MC_DROPOUT), "nll")


def test_the_error_is_lower_with_qr_on_ten_and_on_nine_sets() -> None:
    assert sizes(qr_against_base(MC_DROPOUT, ERROR)) == (10, 0, 0)
    assert sizes(qr_against_base(ENSEMBLE, ERROR)) == (9, 0, 1)
    for network, clearly in ((MC_DROPOUT, 5), (ENSEMBLE, 6)):
        counts = qr_against_base(network, ERROR, standard_errors=2.3)
        assert len(counts.lower) == clearly


def test_nll_and_rmse_counts() -> None:
    assert sizes(qr_against_base(MC_DROPOUT, "nll")) == (7, 0, 3)
    assert sizes(qr_against_base(ENSEMBLE, "nll")) == (6, 2, 2)
    assert sizes(qr_against_base(MC_DROPOUT, "rmse")) == (3, 1, 6)
    assert sizes(qr_against_base(ENSEMBLE, "rmse")) == (2, 3, 5)
    assert rmse_rises(MC_DROPOUT)["yacht"] == pytest.approx(5.50 / 3.55 - 1)
    assert rmse_rises(ENSEMBLE)["yacht"] == pytest.approx(0.22, abs=0.005)
    assert rmse_rises(MC_DROPOUT)["airfoil"] == pytest.approx(0.15, abs=0.005)


@pytest.mark.parametrize(
    ("network", "base", "qr", "less", "better"),
    [(MC_DROPOUT, 5, 4, 4, 6), (ENSEMBLE, 7, 8, 7, 7)],
)
def test_isotonic_counts(
    network: str, base: int, qr: int, less: int, better: int
) -> None:
    assert len(starred(network)) == base
    after = PublishedArm(network, "qr", ISOTONIC)
    assert len(count(after, PublishedArm(network, "qr"), ERROR).higher) == qr
    assert len(rises_less(network)) == less
    isotonic = PublishedArm(network, "base", ISOTONIC)
    assert len(count(PublishedArm(network, "qr"), isotonic, ERROR).lower) == better


def test_starred_sets_are_those_of_the_tables() -> None:
    assert starred(ENSEMBLE) == (
        "airfoil",
        "boston",
        "concrete",
        "fish",
        "kin8nm",
        "red_wine",
        "white_wine",
    )


def test_ensembles_have_the_higher_error_on_half_of_the_sets() -> None:
    counts = count(PublishedArm(ENSEMBLE), PublishedArm(MC_DROPOUT), ERROR)
    assert len(counts.higher) == 5


@pytest.mark.parametrize(
    ("name", "network", "text"),
    [
        ("qr-error", MC_DROPOUT, "Lower on 10 of 10 sets"),
        ("qr-nll", ENSEMBLE, "Better on 6 sets, equal on 2, worse on 2."),
        ("qr-rmse", MC_DROPOUT, r"largest changes: yacht \+55%, airfoil \+15%"),
        ("isotonic-worsens", ENSEMBLE, "Higher on 7 of 10 sets, .* QR on 8"),
        ("isotonic-qr", MC_DROPOUT, "By less on 4 of the 5 starred"),
        ("qr-isotonic", MC_DROPOUT, "Lower on 6 of 10"),
        ("isotonic-large", ENSEMBLE, r"kin8nm 1.22 to 19.07"),
        ("ensemble-error", ENSEMBLE, "Higher on 5 of 10"),
        ("ensemble-isotonic", ENSEMBLE, "Higher on 7 of 10"),
        ("curve", MC_DROPOUT, "without printed numbers"),
    ],
)
def test_what_the_paper_says_is_counted(name: str, network: str, text: str) -> None:
    import re

    assert re.search(text, paper_says(name, network))


def test_errata_are_complete_sentences() -> None:
    assert len(errata()) >= 12
    for erratum in errata():
        assert erratum.place
        assert erratum.printed.endswith(".")
        assert erratum.correct.endswith(".")
