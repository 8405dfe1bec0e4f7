"""Boosted trees: LightGBM's own predictions, gradients, and what the trees learn."""

import numpy as np
import pytest
import torch

from calibrant import Gaussian
from calibrant.learners import boosting
from calibrant.learners.boosting import Forest, grow, spread_of
from calibrant.regularizers import cumulative_kl

lightgbm = pytest.importorskip("lightgbm")


def table(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two features; the mean follows one, the spread the other."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 2))
    y = 50 + 10 * np.sin(3 * x[:, 0]) + np.exp(2 * x[:, 1]) * random.normal(size=n)
    return x, y


OPTIONS = {"rounds": 40, "spread_rounds": 20, "leaves": 15, "learning_rate": 0.1}


def grown(**changes: object) -> boosting.BoostedNormal:
    return grow(*table(), **(OPTIONS | {"seed": 3} | changes))


@pytest.fixture
def booster(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What LightGBM has trained."""
    kept: list[object] = []
    train = lightgbm.train

    def spy(*arguments: object, **options: object) -> object:
        kept.append(train(*arguments, **options))
        return kept[-1]

    monkeypatch.setattr(lightgbm, "train", spy)
    return kept


@pytest.mark.parametrize("leaves", [2, 15, 64])
def test_predictions_are_those_of_lightgbm(booster: list, leaves: int) -> None:
    model = grown(leaves=leaves, spread_rounds=40)
    x, _ = table(2500, seed=1)  # more rows than are looked at at once
    raw = booster[0].predict(x, raw_score=True)
    mean, spread = model.rounds(x, np.array([40]))
    assert mean[0] == pytest.approx(model.center + model.scale * raw[:, 0], rel=1e-12)
    expected = model.scale * spread_of(raw[:, 1] + model.intercepts[-1])
    assert spread[0] == pytest.approx(expected, rel=1e-12)


def test_values_on_a_threshold_go_to_the_left(booster: list) -> None:
    model = grown()
    x = np.zeros((40, 2))
    x[:, 0] = np.unique(model.mean.threshold[model.mean.feature == 0])[:40]
    raw = booster[0].predict(x, raw_score=True)
    mean, _ = model.rounds(x, np.array([40]))
    assert mean[0] == pytest.approx(model.center + model.scale * raw[:, 0], rel=1e-12)


def test_fewer_rounds_are_a_part_of_more() -> None:
    model, x = grown(), table(50, seed=1)[0]
    means, spreads = model.rounds(x, np.array([5, 10, 30]))
    for place, count in enumerate((5, 10, 30)):
        alone = model.first(count, count)
        mean, spread = alone.rounds(x, np.array([count]))
        assert np.allclose(mean[0], means[place], rtol=1e-12)
        assert np.allclose(spread[0], spreads[place], rtol=1e-12)
        assert len(alone.mean) == count
        assert len(alone.spread) == min(count, 20)


def test_the_same_seed_gives_the_same_trees() -> None:
    first, second, other = grown(), grown(), grown(seed=4)
    assert (first.mean.value == second.mean.value).all()
    assert (first.spread.value == second.spread.value).all()
    assert not np.array_equal(first.mean.value, other.mean.value)


def test_mean_and_spread_follow_their_features() -> None:
    x, y = table(4000, seed=1)
    model = grow(x, y, seed=0, **OPTIONS | {"rounds": 80, "spread_rounds": 80})
    new = np.array([[-0.5, -0.8], [0.5, -0.8], [0.0, 0.8]])
    mean, spread = (values[0] for values in model.rounds(new, np.array([80])))
    assert mean == pytest.approx(50 + 10 * np.sin(3 * new[:, 0]), abs=1.5)
    assert spread[2] > 6 * spread[:2].max()
    assert spread[2] == pytest.approx(np.exp(1.6), rel=0.5)


def test_weights_of_zero_are_rows_that_are_not_there() -> None:
    x, y = table()
    weights = np.ones(len(y))
    weights[::2] = 0
    wild = np.where(weights > 0, y, 1e4)
    model = grow(x, wild, weights, seed=0, **OPTIONS)
    mean, _ = model.rounds(x, np.array([40]))
    assert np.abs(mean[0] - y).max() < 60  # never near 10,000


@pytest.mark.parametrize("strength", [0.0, 3.0, -1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_the_loss(strength: float, *, weighted: bool) -> None:
    random = np.random.default_rng(0)
    n = 30
    raw = np.stack([random.normal(size=n), 0.3 * random.normal(size=n)], axis=1)
    target = random.normal(size=n)
    weights = random.uniform(0.5, 2, n) if weighted and not strength else None
    objective = boosting._Objective(weights, strength, spread_rounds=5)

    class Data:
        def get_label(self) -> np.ndarray:
            return target

    gradient, hessian = objective(raw.reshape(-1, order="F"), Data())
    location = torch.tensor(raw[:, 0], requires_grad=True)
    logarithm = torch.tensor(raw[:, 1] + objective.intercepts[-1], requires_grad=True)
    normal = Gaussian(location, logarithm.exp())
    y = torch.tensor(target)
    own = torch.ones(n) if weights is None else torch.tensor(weights)
    loss = -(own * normal.log_prob(y)).sum() + strength * n * cumulative_kl(
        normal.pit(y)
    )
    by_mean, by_log = torch.autograd.grad(loss, [location, logarithm])
    # That of the mean is divided by the Fisher information, one over the variance.
    by_mean = by_mean * (2 * logarithm).exp()
    assert gradient[:, 0] == pytest.approx(by_mean.detach().numpy(), abs=1e-9)
    assert gradient[:, 1] == pytest.approx(by_log.detach().numpy(), abs=1e-9)
    assert (hessian[:, 1] == 2 * hessian[:, 0]).all()


def test_segments_across_blocks_of_trees_add_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x = grown(rounds=60, spread_rounds=60), table(20, seed=2)[0]
    forest = Forest.joined([model.mean, model.spread])
    whole = forest.sums(x, np.array([0, 60]))
    monkeypatch.setattr(boosting, "_TREES", 7)
    assert forest.sums(x, np.array([0, 60])) == pytest.approx(whole, rel=1e-12)
    parts = forest.sums(x, np.array([0, 1, 3, 59, 60, 100]))
    assert parts[:, :4].sum(1) == pytest.approx(whole[:, 0], rel=1e-12)
    assert parts[:, 4:].sum(1) == pytest.approx(whole[:, 1], rel=1e-12)


def test_features_that_tell_no_rows_apart_leave_one_distribution(
    capfd: pytest.CaptureFixture[str],
) -> None:
    x, y = np.ones((60, 3)), 5 + 2 * np.random.default_rng(0).standard_normal(60)
    weights = np.r_[np.zeros(20), np.ones(40)]
    model = grow(x, y, weights, seed=0, **OPTIONS)
    mean, spread = model.rounds(x, np.array([10, 40]))
    assert mean == pytest.approx(np.full((2, 60), y[20:].mean()))
    assert spread == pytest.approx(np.full((2, 60), y[20:].std()))
    assert len(model.first(10, 10).mean) == 1
    assert capfd.readouterr() == ("", "")


def test_a_constant_target_gives_one_leaf() -> None:
    x, _ = table()
    model = grow(
        x,
        np.full(len(x), 7.0),
        rounds=3,
        spread_rounds=3,
        leaves=4,
        learning_rate=0.1,
        seed=0,
    )
    mean, spread = model.rounds(x, np.array([3]))
    assert (mean == 7).all()
    assert (spread > 0).all()
