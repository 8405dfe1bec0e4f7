"""Verdicts on records whose answer is known by construction."""

import dataclasses
import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from calibrant.paper.claims import (
    Verdict,
    count_rule,
    much_more_rule,
    named_rule,
    verdicts,
)
from calibrant.paper.ledger import LEVELS, Arm, Cell, Record
from calibrant.paper.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    Model,
    paper_texts,
)
from calibrant.paper.results import PAPER_REGULARIZER, PairedTest, SetComparison
from page_records import measured

NINE = PAPER_DATA[:9]
Numbers = Callable[[Arm], dict[str, float]]


def record(cell: Cell, numbers: dict[str, float], noise: np.random.Generator) -> Record:
    """A record with given means: fold effects shared by all arms, and own noise."""
    values = {
        "calibration_error": 20.0,
        "floor": 1.0,
        "spread_calibration_error": 8.0,
        "mean_calibration_error": 8.0,
        "rmse": 5.0,
        "nll": 2.0,
        "crps": 2.0,
        "sharpness": 1.0,
        "coverage": 0.9,
    } | numbers
    fold = 1 + 0.1 * cell.fold
    for name in ("calibration_error", "rmse", "crps"):
        values[name] *= fold * (1 + 0.01 * noise.normal())
    values["nll"] += fold + 0.01 * noise.normal()
    values["randomized_calibration_error"] = values["calibration_error"]
    gap = math.sqrt(values["calibration_error"]) / 10
    curve = tuple(round(200 * min(1, j / LEVELS + gap)) for j in range(1, 21))
    return measured(cell, train_rows=800, test_rows=200, curve=curve, **values)


def run(arms: Iterable[Arm], numbers: Numbers, *, repeats: int = 2) -> list[Record]:
    noise = np.random.default_rng(0)
    return [
        record(Cell(**dataclasses.asdict(arm), repeat=r, fold=f), numbers(arm), noise)
        for arm in arms
        for r in range(repeats)
        for f in range(arm.folds)
    ]


def paper_arms(
    networks: tuple[str, ...] = (MC_DROPOUT, ENSEMBLE),
    data: Iterable[str] = NINE,
    epochs: int = 100,
) -> list[Arm]:
    return [
        Model(network, epochs).arm(name, training, after)
        for name in data
        for network in networks
        for training in ("base", "qr")
        for after in ("none", ISOTONIC)
    ]


def find(every: Iterable[Verdict], name: str, network: str = MC_DROPOUT) -> Verdict:
    (found,) = [v for v in every if (v.name, v.network) == (name, network)]
    return found


def as_claimed(arm: Arm) -> dict[str, float]:
    """Numbers that fit each claim: QR lowers the error, isotonic raises it but ..."""
    large = arm.data in ("kin8nm", "protein", "year_msd")
    error = 20.0 if arm.network == MC_DROPOUT else 40.0
    qr = arm.regularizer == PAPER_REGULARIZER
    error *= 0.7 if qr else 1.0
    if arm.recalibration == ISOTONIC:
        starred = not large or (arm.data == "kin8nm" and arm.network == ENSEMBLE)
        error = error + (5 if qr else 20) if starred else error - 1
    return {
        "calibration_error": error,
        "rmse": 5.02 if qr else 5.0,
        "nll": 1.5 if qr else 2.0,
    }


def test_all_claims_hold_where_they_are_built_in() -> None:
    every = verdicts(run(paper_arms(), as_claimed))
    outcomes = {(v.name, v.network): v.verdict for v in every}
    # Isotonic wins where it is built to, so "consistently" is false on the large sets;
    # and Figure 2 was not swept.
    for name, network in list(outcomes):
        if name.startswith("strength"):
            assert outcomes.pop((name, network)) == "not run"
    assert outcomes.pop(("isotonic-large", ENSEMBLE)) == "does not hold"
    assert set(outcomes.values()) == {"holds"}
    assert {name for name, _ in outcomes} == {
        "qr-error",
        "qr-nll",
        "qr-rmse",
        "isotonic-worsens",
        "isotonic-qr",
        "qr-isotonic",
        "isotonic-large",
        "ensemble-error",
        "ensemble-isotonic",
        "curve",
    }
    found = find(every, "qr-error")
    assert (
        found.ours == "lower on 9 of 9 sets (clearly on 9), higher on 0 (clearly on 0)"
    )
    assert "p = 0.0039" in found.explanation  # 2 / 2**9
    assert "kin8nm" in find(every, "isotonic-large", ENSEMBLE).explanation


def test_claims_fail_where_the_opposite_is_built_in() -> None:
    def opposite(arm: Arm) -> dict[str, float]:
        qr = arm.regularizer == PAPER_REGULARIZER
        isotonic = arm.recalibration == ISOTONIC
        error = (30.0 if qr else 20.0) / (2 if isotonic and not qr else 1)
        error += 10.0 if isotonic and qr else 0.0
        error *= 0.5 if arm.network == ENSEMBLE else 1.0
        return {
            "calibration_error": error,
            "rmse": 5.5 if qr else 5.0,
            "nll": 2.5 if qr else 2.0,
        }

    every = verdicts(run(paper_arms(), opposite))
    failing = {v.name for v in every if v.verdict == "does not hold"}
    assert failing == {
        "qr-error",
        "qr-nll",
        "qr-rmse",
        "isotonic-worsens",
        "isotonic-qr",
        "qr-isotonic",
        "ensemble-error",
        "ensemble-isotonic",
        "curve",
    }


def test_no_difference_is_within_noise() -> None:
    every = verdicts(run(paper_arms(), lambda _: {}))
    names = ("qr-error", "isotonic-worsens", "isotonic-qr", "qr-isotonic")
    assert {find(every, name).verdict for name in names} == {"within noise"}
    # Equal RMSE is clearly below 1.02 times itself: negligible is what is claimed.
    assert find(every, "qr-rmse").verdict == "holds"


def test_one_clear_counterexample_is_too_many_for_dropout_not_for_ensembles() -> None:
    def numbers(arm: Arm) -> dict[str, float]:
        qr = arm.regularizer == PAPER_REGULARIZER
        factor = 1.2 if arm.data == "kin8nm" else 0.7
        return {"calibration_error": 20.0 * (factor if qr else 1.0)}

    data = [*NINE, "year_msd"]
    every = verdicts(run(paper_arms(data=data), numbers))
    dropout, ensemble = (find(every, "qr-error", n) for n in (MC_DROPOUT, ENSEMBLE))
    assert dropout.verdict == "does not hold"
    assert (
        "Clearly higher on 1 set (kin8nm), and none is allowed" in dropout.explanation
    )
    assert ensemble.verdict == "holds"
    assert "leaves room" in ensemble.explanation


def test_one_repeat_is_enough_and_a_partial_ledger_says_what_it_has() -> None:
    records = run(paper_arms(), as_claimed, repeats=1)
    assert find(verdicts(records), "qr-error").verdict == "holds"
    few = run(paper_arms(data=NINE[:3]), as_claimed, repeats=1)
    found = find(verdicts(few), "qr-error")
    assert found.verdict == "within noise"
    assert "Only 3 sets are finished" in found.explanation
    unfinished = [r for r in few if r.cell.fold < 4]
    assert {v.verdict for v in verdicts(unfinished)} == {"not run"}


def test_nothing_run_and_other_data() -> None:
    assert {v.verdict for v in verdicts([])} == {"not run"}
    own = run(paper_arms(data=["own.csv"]), as_claimed)
    assert {v.verdict for v in verdicts(own)} == {"not run"}
    assert len(verdicts([])) == len([v for v in verdicts(own) if v.source == "paper"])


def test_ensembles_at_64_epochs_have_verdicts_of_their_own() -> None:
    assert 64 not in {v.epochs for v in verdicts([])}
    records = run(paper_arms((ENSEMBLE,), epochs=64), as_claimed)
    found = [v for v in verdicts(records) if v.epochs == 64]
    assert {v.verdict for v in found if v.name == "qr-error"} == {"holds"}
    assert "strength-error" not in {v.name for v in found}


def sweep(data: str, numbers: Numbers, network: str = MC_DROPOUT) -> list[Record]:
    base = Model(network).arm(data)
    arms = [base] + [
        dataclasses.replace(base, regularizer=PAPER_REGULARIZER, strength=strength)
        for strength in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
    ]
    return run(arms, numbers)


@pytest.mark.parametrize(
    ("error", "rmse", "outcomes"),
    [
        (-0.2, 0.0, ("holds", "holds")),
        (0.2, 0.0, ("does not hold", "holds")),
        (-0.2, 0.2, ("holds", "does not hold")),
        (0.0, 0.0, ("within noise", "holds")),
    ],
)
def test_sweep_over_strengths(
    error: float, rmse: float, outcomes: tuple[str, str]
) -> None:
    def numbers(arm: Arm) -> dict[str, float]:
        grown = math.log1p(arm.strength)
        return {
            "calibration_error": 20.0 * math.exp(error * grown),
            "rmse": 5.0 * math.exp(rmse * grown),
        }

    every = verdicts(sweep("concrete", numbers))
    found = find(every, "strength-error"), find(every, "strength-rest")
    assert tuple(each.verdict for each in found) == outcomes
    assert "over 7 strengths" in found[0].explanation
    assert find(every, "strength-error", ENSEMBLE).verdict == "not run"


def test_one_set_against_it_is_enough_for_figure_2() -> None:
    falls = sweep("concrete", lambda arm: {"calibration_error": 60.0 - arm.strength})
    rises = sweep("protein", lambda arm: {"calibration_error": 20.0 + arm.strength})
    assert find(verdicts(falls), "strength-error").verdict == "holds"
    found = find(verdicts(falls + rises), "strength-error")
    assert found.verdict == "does not hold"
    assert found.ours == "concrete: holds, protein: does not hold"


def test_nll_that_moves_is_seen() -> None:
    records = sweep("concrete", lambda arm: {"nll": 2.0 - 0.01 * arm.strength})
    found = find(verdicts(records), "strength-rest")
    assert found.verdict == "does not hold"
    assert "NLL by up to -0.50 (strength 50)" in found.explanation


def shuffled(numbers: Numbers) -> list[Record]:
    plain = [
        dataclasses.replace(arm, split="shuffled") for arm in paper_arms((MC_DROPOUT,))
    ]
    default = [
        Arm(
            data=name,
            split="shuffled",
            network="default",
            regularizer=PAPER_REGULARIZER,
            strength=1.0,
            recalibration="out_of_fold",
        )
        for name in NINE
    ]
    other = [
        Arm(
            data=name,
            split="shuffled",
            network=MC_DROPOUT,
            regularizer="spacing_entropy",
            strength=1.0,
        )
        for name in NINE
    ]
    return run(plain + default + other, numbers)


def test_our_own_questions() -> None:
    def numbers(arm: Arm) -> dict[str, float]:
        errors = {"default": 2.0, MC_DROPOUT: 20.0}
        found = {"calibration_error": errors[arm.network]}
        if arm.regularizer == "spacing_entropy":
            found["calibration_error"] = 30.0
        if arm.recalibration == ISOTONIC:
            found["nll"] = math.inf
        return found

    every = verdicts(shuffled(numbers))
    own = {v.name: v for v in every if v.source == "own"}
    assert own["default-base"].verdict == "holds"
    assert "NLL" in own["default-base"].ours
    assert own["default-isotonic"].verdict == "holds"
    assert own["regularizer-spacing_entropy"].verdict == "does not hold"
    assert own["regularizer-cumulative_kl"].verdict == "within noise"
    assert "spacing_entropy at strength 1" in own["regularizer-spacing_entropy"].claim
    assert not [v for v in verdicts([]) if v.source == "own"]


def test_a_default_on_other_folds_or_epochs_is_not_judged() -> None:
    records = shuffled(lambda arm: {"calibration_error": 2.0 + arm.folds})
    plain = [r for r in records if r.cell.network != "default"]
    default = [r for r in records if r.cell.network == "default"]
    for other in ({"folds": 2}, {"epochs": 7}):
        changed = [
            dataclasses.replace(r, cell=dataclasses.replace(r.cell, **other))  # type: ignore[arg-type]
            for r in default
            if r.cell.fold < 2 or "folds" not in other
        ]
        own = {v.name: v for v in verdicts(plain + changed) if v.source == "own"}
        assert own["default-base"].verdict == "not run"
        assert own["default-base"].sets == ()
        # Beside the right ones they change nothing.
        both = {v.name: v for v in verdicts(records + changed) if v.source == "own"}
        right = {v.name: v for v in verdicts(records) if v.source == "own"}
        assert both["default-base"] == right["default-base"]
        assert len(right["default-base"].sets) == len(NINE)


def test_a_set_counts_once_for_a_regularizer() -> None:
    records = shuffled(lambda _: {})
    two = [
        dataclasses.replace(r, cell=dataclasses.replace(r.cell, folds=2))
        for r in records
        if r.cell.fold < 2
    ]
    name = "regularizer-spacing_entropy"
    (found,) = [v for v in verdicts(records + two) if v.name == name]
    assert len(found.sets) == len(NINE)


def test_counts_of_the_rmse_say_what_they_are_against() -> None:
    found = find(verdicts(run(paper_arms(), as_claimed)), "qr-rmse")
    assert found.ours.startswith("below 1.02 x base on 9 of 9 sets (clearly on ")
    assert found.ours.endswith("), above it on 0 (clearly on 0)")
    assert find(verdicts([]), "qr-rmse").ours == "nothing yet"


def test_a_default_with_a_worse_nll_does_not_hold() -> None:
    def numbers(arm: Arm) -> dict[str, float]:
        ours = arm.network == "default"
        return {"calibration_error": 2.0 if ours else 20.0, "nll": 3.0 if ours else 2.0}

    own = {v.name: v for v in verdicts(shuffled(numbers)) if v.source == "own"}
    assert own["default-base"].verdict == "does not hold"
    assert "But its NLL is worse" in own["default-base"].explanation


def test_each_verdict_has_its_texts() -> None:
    for verdict in verdicts(run(paper_arms(), as_claimed)):
        text = paper_texts()["claims"][verdict.name]
        assert (verdict.claim, verdict.rule) == (text["claim"], text["rule"])
        assert verdict.paper
        assert verdict.ours
        assert verdict.explanation


def made(*results: tuple[str, float, float, float]) -> list[SetComparison]:
    """Comparisons from name, B, A and p-value."""
    return [
        SetComparison(name, b, a, 1, PairedTest(b - a, b - a, p))
        for name, b, a, p in results
    ]


def test_count_rule_room_grows_with_the_claim() -> None:
    lower = [(f"set {i}", 1.0, 2.0 + 0.1 * i, 0.01) for i in range(8)]
    sets = made(*lower, ("against", 2.1, 2.0, 0.01), ("unclear", 2.02, 2.0, 0.6))
    assert count_rule(sets, of_ten=10).verdict == "does not hold"
    assert count_rule(sets, of_ten=9).verdict == "holds"
    # Of nine sets or fewer a tenth is no whole set.
    assert count_rule(sets[:9], of_ten=9).verdict == "does not hold"
    assert count_rule([], of_ten=9).verdict == "not run"


def test_named_rule_needs_more_than_half_and_nothing_against() -> None:
    half = made(("a", 1.0, 2.0, 0.01), ("b", 1.0, 2.0, 0.5))
    assert named_rule(half, claimed="lower").verdict == "within noise"
    more = [*half, *made(("c", 1.0, 2.0, 0.01))]
    assert named_rule(more, claimed="lower").verdict == "holds"
    against = [*more, *made(("d", 3.0, 2.0, 0.01))]
    assert named_rule(against, claimed="lower").verdict == "does not hold"
    assert named_rule(more, claimed="higher").verdict == "does not hold"
    assert named_rule([], claimed="lower").verdict == "not run"


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [(2.0, "holds"), (1.2, "does not hold"), (0.5, "does not hold")],
)
def test_much_more_means_by_half(ratio: float, outcome: str) -> None:
    sets = made(*((f"set {i}", ratio * (1 + i), 1.0 + i, 0.01) for i in range(7)))
    assert much_more_rule(sets).verdict == outcome
    unclear = made(*((f"{i}", 1 + (-1) ** i * 0.1, 1.0, 0.5) for i in range(7)))
    assert much_more_rule(unclear).verdict == "within noise"
    assert much_more_rule([]).verdict == "not run"
