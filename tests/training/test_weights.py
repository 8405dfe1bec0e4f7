"""Sample weights weight the score, and nothing else."""

import pytest
import torch

from small_training import ensemble, fit, problem

FULL = {"batch_size": 64, "epochs": 8}


def test_weight_two_is_a_row_twice() -> None:
    weights = torch.ones(64)
    weights[:10] = 2
    weighted, repeated = ensemble(2), ensemble(2)
    fit(weighted, problem(2, weights=weights), **FULL)
    rows = torch.cat([torch.arange(64), torch.arange(10)])
    fit(repeated, problem(2, rows=[rows] * 2), **{**FULL, "batch_size": 100})
    for one, other in zip(weighted.parameters(), repeated.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


def test_only_ratios_matter_for_each_member() -> None:
    weights = torch.rand(64)
    rows = [torch.arange(64), torch.arange(30)]
    networks = [ensemble(2), ensemble(2)]
    for factor, network in zip((1.0, 7.0), networks, strict=True):
        data = problem(2, rows=rows, weights=factor * weights)
        fit(network, data, strength=10.0)
        means = data.member_weights()
        assert means is not None
        for each, own in zip(means, rows, strict=True):
            assert each[own].mean().item() == pytest.approx(1)
    for one, other in zip(*(each.parameters() for each in networks), strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=0)


def test_the_regularizer_ignores_them() -> None:
    weights = torch.rand(64)
    histories = [
        fit(
            ensemble(1),
            problem(1, weights=each),
            strength=5.0,
            batch_size=64,
            epochs=1,
        )
        for each in (None, weights)
    ]
    assert histories[0].regularizer == pytest.approx(histories[1].regularizer)
    assert histories[0].loss != pytest.approx(histories[1].loss)


def test_held_out_scores_are_weighted_too() -> None:
    held_out = [torch.arange(50, 64)]
    rows = [torch.arange(50)]
    weights = torch.ones(64)
    weights[57:] = 0
    scores = [
        fit(
            ensemble(1),
            problem(1, rows=rows, held_out=[out], weights=each),
            epochs=1,
        ).held_out_score
        for out, each in (
            (held_out[0], weights),
            (held_out[0][:7], None),
            # Rows of weight 0 alone count as equals.
            (held_out[0][7:], weights),
            (held_out[0][7:], None),
        )
    ]
    assert scores[0] == pytest.approx(scores[1])
    assert scores[2] == pytest.approx(scores[3])
    assert scores[0] != pytest.approx(scores[2])
