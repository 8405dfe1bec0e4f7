"""Networks, heads, pools, transforms and bounds; scales; many models in one stack."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from calibrant import CalibratedRegressor, InputError, export_onnx, load
from calibrant.distributions.derived import Transformed
from calibrant.distributions.normal import Gaussian
from calibrant.estimators import networks
from calibrant.estimators.base import usual_range
from calibrant.estimators.networks import center_and_scale
from calibrant.estimators.pool import Blend, Pool
from calibrant.learners import HEADS
from calibrant.transforms import from_functions

Make = Callable[..., CalibratedRegressor]

Array = npt.NDArray[np.float64]

Rows = tuple[Array, Array]


class Net(nn.Module):
    """A small network whose prediction is a law of torch, or a pair."""

    def __init__(self, features: int, *, pair: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)
        )
        self.pair = pair

    def forward(self, x: Tensor) -> Normal | tuple[Tensor, Tensor]:
        mean, raw = self.layers(x).unbind(-1)
        spread = nn.functional.softplus(raw) + 1e-3
        return (mean, spread) if self.pair else Normal(mean, spread)


def torch_law(features: int) -> nn.Module:
    return Net(features, pair=False)


def pair(features: int) -> nn.Module:
    return Net(features, pair=True)


NETWORKS: dict[str, dict[str, Any]] = {
    "deep_ensemble": {"network": "deep_ensemble"},
    "mc_dropout": {"network": "mc_dropout", "passes": 2},
    "torch law": {"network": torch_law},
    "pair": {"network": pair},
}

STRATEGIES = (None, "train", "held_out", "out_of_fold")


def check(model: CalibratedRegressor, x: Array, y: Array) -> None:
    """Look whether a model is a usable one."""
    law = model.predict_distribution(x)
    assert law.batch_shape == (len(x),)
    interval = model.predict_interval(x, 0.8)
    assert np.isfinite(interval).all()
    assert (interval[:, 0] < interval[:, 1]).all()
    assert law.log_prob(y).isfinite().all()
    levels = law.cdf(interval[:, 1])
    torch.testing.assert_close(levels, torch.full_like(levels, 0.9), atol=1e-3, rtol=0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_networks(network: str, strategy: str | None, cheap: Make, line: Rows) -> None:
    settings = NETWORKS[network]
    model = cheap(epochs=1, recalibrate_on=strategy, **settings).fit(*line)
    check(model, line[0][:9], line[1][:9])
    assert (model.model_.recalibrator is not None) == (strategy is not None)
    # Two partitions of two folds, or two members.
    assert len(model.model_.members.networks) == (4 if strategy == "out_of_fold" else 2)


@pytest.mark.parametrize("kind", ["pooled", "mixture", "moment_matched"])
@pytest.mark.parametrize("head", HEADS)
def test_heads(head: str, kind: str, cheap: Make, line: Rows) -> None:
    model = cheap(epochs=1, head=head, distribution=kind).fit(*line)
    check(model, line[0][:9], line[1][:9])
    law = model.model_.members.distribution(line[0])
    normal = kind == "moment_matched" or (kind == "pooled" and head == "gaussian")
    assert isinstance(law, Gaussian) == normal
    if kind == "moment_matched":
        plain = cheap(epochs=1, head=head, distribution="mixture").fit(*line)
        mixture = plain.model_.members.distribution(line[0])
        torch.testing.assert_close(law.mean, mixture.mean)
        torch.testing.assert_close(law.stddev, mixture.stddev)


@pytest.mark.parametrize("members", [3, 4])
@pytest.mark.parametrize("strategy", [None, "out_of_fold"])
def test_disagreement_counts_three_times_and_is_moderated(
    members: int, strategy: str | None, cheap: Make, line: Rows
) -> None:
    # What counts is the size of the pools that the map learns from, not of the served.
    model = cheap(epochs=2, members=members, recalibrate_on=strategy).fit(*line)
    inner = model.model_.members.networks
    usual = inner.disagreement
    alone = [inner.distribution(line[0], [member]) for member in range(len(inner))]
    means = torch.stack([law.mean for law in alone])
    # A pool of one has the prior alone.
    own = torch.stack([law.variance for law in alone]) / (1 + 3 * (usual or 0))
    served, count, expected = inner.distribution(line[0]), len(alone), own.mean(0)
    torch.testing.assert_close(served.mean, means.mean(0))
    if members == 4:
        prior, found = 8 * usual * own.mean(0), (count - 1) * means.var(0)
        expected = expected + 3 * (prior + found) / (8 + count - 1)
        assert (usual > 0) == (strategy is not None)
    torch.testing.assert_close(served.variance, expected)


class TestOneEpochForAll:
    def test_is_that_of_the_best_pool(self, cheap: Make, line: Rows) -> None:
        settings = {"members": 3, "schedule": "constant", "learning_rate": 0.1}
        model = cheap(epochs=60, patience=4, **settings).fit(*line)
        (history,) = model.history_
        best = 1 + int(np.argmin(history.held_out_score))
        assert history.best_epoch == [best] * 6
        assert len(history.loss) == best + 4 < 60
        # The model is that of a training of so many epochs.
        short = cheap(epochs=best, patience=None, **settings).fit(*line)
        np.testing.assert_array_equal(
            short.predict_interval(line[0]), model.predict_interval(line[0])
        )

    @pytest.mark.parametrize("weighted", [False, True])
    def test_its_score_by_hand(
        self, weighted: bool, cheap: Make, line: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pools: list[Pool] = []

        def kept(*given: Any, **options: Any) -> Pool:
            pools.append(known(*given, **options))
            return pools[-1]

        known = Blend.pool
        monkeypatch.setattr(Blend, "pool", kept)
        weights = np.repeat([0.0, 1.0, 3.0], 20) if weighted else np.ones(60)
        model = cheap(epochs=1, distribution="moment_matched").fit(*line, weights)
        crps = pools[0].distribution().crps(line[1]).numpy()
        found = model.history_[0].held_out_score[0]
        assert found == pytest.approx(np.average(crps, weights=weights), rel=1e-5)


class TestBins:
    @pytest.mark.parametrize(
        ("features", "bins", "size"),
        [
            (2, 0, 0),
            (2, 1, 0),  # the feature itself
            (2, 16, 32),
            (2, 1024, 118),  # 60 rows have 59 gaps
            (100, 16, 1000),  # no more than 1024 numbers in all
            (600, 16, 0),
        ],
    )
    def test_wide_tables_get_fewer(
        self, features: int, bins: int, size: int, cheap: Make
    ) -> None:
        x = np.random.default_rng(0).standard_normal((60, features))
        model = cheap(epochs=1, members=1, bins=bins).fit(x, x[:, 0])
        stack: Any = model.model_.members.networks.networks[0].stack
        assert (0 if stack.encoding is None else stack.encoding.size) == size
        assert stack.weights[0].shape[-2] == features + size


def asinh(y: Tensor) -> Tensor:
    return y.asinh()


def asinh_slope(y: Tensor) -> Tensor:
    return -torch.hypot(y, torch.ones_like(y)).log()


TRANSFORMS: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    "log": ("log", np.log),
    "box_cox": ("box_cox", lambda y: y),
    "yeo_johnson": ("yeo_johnson", lambda y: y),
    "logit": ("logit", lambda y: np.log(y / (1 - y))),
    "own": (from_functions(asinh, torch.sinh, asinh_slope), np.arcsinh),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_likelihood_is_that_of_the_target(name: str, cheap: Make) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (60, 1))
    y = 1 / (1 + np.exp(-x[:, 0] - 0.3 * random.standard_normal(60)))
    transform, image = TRANSFORMS[name]
    model = cheap(epochs=2, target_transform=transform, recalibrate_on=None).fit(x, y)
    law = model.predict_distribution(x)
    assert isinstance(law, Transformed)
    if name in ("log", "logit", "own"):
        z = image(y)
        networks = model.model_.members.networks
        np.testing.assert_allclose(networks.target_center, z.mean())
        # d/dy of the image, by differences.
        step = 1e-6
        slope = (image(y + step) - image(y - step)) / (2 * step)
    else:
        target = torch.from_numpy(y)
        z = law.transform.forward(target).numpy()
        step = 1e-6
        slope = (
            (
                law.transform.forward(target + step)
                - law.transform.forward(target - step)
            )
            / (2 * step)
        ).numpy()
    expected = law.base.log_prob(z) + torch.from_numpy(np.log(slope))
    torch.testing.assert_close(law.log_prob(y), expected, atol=1e-6, rtol=1e-6)
    # And it is a density: it integrates to 1.
    places = torch.linspace(1e-4, 1 - 1e-4, 4001)[:, None].expand(-1, 5)
    if name == "logit":
        total = law[:5].log_prob(places).exp().sum(0) * places.diff(dim=0)[0]
        torch.testing.assert_close(total, torch.ones(5), atol=2e-3, rtol=0)


@pytest.mark.parametrize("transform", [None, "box_cox"])
def test_a_mixture_takes_weights(
    transform: str | None, cheap: Make, line: Rows
) -> None:
    settings = {"network": "mc_dropout", "passes": 3, "distribution": "mixture"}
    model = cheap(epochs=1, target_transform=transform, **settings).fit(*line)
    blend, (x, y) = model.model_.members, line
    moved, members = torch.from_numpy(y), blend.networks
    if transform is not None:
        moved = blend.transform.forward(moved)
    alone = torch.stack(
        [members.distribution(x, [member]).cdf(moved) for member in range(4)]
    )
    torch.testing.assert_close(blend.distribution(x).cdf(y), alone.mean(0))
    torch.testing.assert_close(
        members.distribution(x, [3, 1]).cdf(moved), alone[[3, 1]].mean(0)
    )
    # Weights of its own for each row, and rows that one does not speak for.
    weights = torch.rand(4, 60)
    weights[2, :30] = 0
    weights /= weights.sum(0)
    pooled = blend.combine(blend.predict(x), [weights.numpy()])
    torch.testing.assert_close(pooled.cdf(y), (weights * alone).sum(0))


class TestBounds:
    @pytest.fixture
    def capped(self) -> Rows:
        random = np.random.default_rng(0)
        x = random.uniform(-1, 1, (80, 1))
        return x, (x[:, 0] + 0.5 * random.standard_normal(80)).clip(0, 1)

    @pytest.mark.parametrize("strategy", [None, "out_of_fold", "held_out"])
    def test_no_mass_lies_outside(
        self, strategy: str | None, cheap: Make, capped: Rows
    ) -> None:
        x, y = capped
        model = cheap(bounds=(0, 1), recalibrate_on=strategy).fit(x, y)
        law = model.predict_distribution(x)
        assert (law.cdf(-1e-9) == 0).all()
        assert (law.cdf(1.0) == 1).all()
        assert law.log_prob(y).isfinite().all()
        assert (law.log_prob(1.001) == -torch.inf).all()
        ends = model.predict_quantiles(x, [0.0, 0.001, 0.999, 1.0])
        assert ends.min() >= 0
        assert ends.max() <= 1

    @pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0,), 3, (0, np.nan)])
    def test_bounds_that_are_none(self, bounds: Any, cheap: Make, capped: Rows) -> None:
        with pytest.raises(InputError, match=r"bounds must be \(low, high\)"):
            cheap(bounds=bounds).fit(*capped)


@pytest.mark.parametrize("strategy", ["held_out", "out_of_fold"])
def test_rounded_targets_do_not_fool_the_map(strategy: str, cheap: Make) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (300, 1))
    y = (x[:, 0] + random.standard_normal(300)).round()
    settings = {"recalibrate_on": strategy, "held_out_share": 0.5}
    settings |= {"recalibrator": "empirical", "round_targets": False}
    model = cheap(epochs=20, **settings).fit(x, y)
    # Plain PIT values of five numbers would make a staircase of the map.
    levels = torch.linspace(0.05, 0.95, 50)
    recalibrator: Any = model.model_.recalibrator
    steps = recalibrator.apply(levels).diff()
    assert steps.max() < 0.1
    check(model, x, y)


def test_one_module_for_two_members_is_refused(cheap: Make, line: Rows) -> None:
    only = torch_law(2)
    with pytest.raises(InputError, match="a new module at each call"):
        cheap(network=lambda _: only).fit(*line)


Rows = tuple[np.ndarray, np.ndarray]

RANDOM = np.random.default_rng(0)

TABLE = RANDOM.normal(size=(1000, 4)) * [1e-5, 1.0, 1e200, 0.0] + [1.0, 0.0, 0.0, 7.0]


def plain(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(values).max(0)
    unit = np.where(largest > 0, largest, 1.0)
    center, scale = (values / unit).mean(0), (values / unit).std(0)
    return center * unit, np.where(scale > 1e-14, scale * unit, 1.0)


@pytest.mark.parametrize("block", [10_000, 300, 7])
def test_blocks_give_what_the_whole_gives(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "_BLOCK", block)
    for found, expected in zip(center_and_scale(TABLE), plain(TABLE), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


NORMAL = np.random.default_rng(1).normal(size=600)


@pytest.mark.parametrize(
    ("usual", "wild"),
    [
        (NORMAL, [-9999.0]),
        (NORMAL, [1e12]),
        (NORMAL, [1e12, 3e11, -9999.0]),
        (NORMAL, [-1e12, 1e6]),
        (NORMAL, [1e308, -1e308]),
        (50 + 10 * NORMAL, [-9999.0] * 30),
        (np.exp(NORMAL), [1e12]),
        (np.round(5 * np.abs(NORMAL)), [-999.0]),
        (np.round(5 * np.abs(NORMAL)), [1e12]),
        (np.where(NORMAL > 1, np.exp(NORMAL), 0.0), [1e12]),
    ],
)
def test_values_beyond_any_reason_are_none_of_the_range(
    usual: np.ndarray, wild: list[float]
) -> None:
    found = usual_range(RANDOM.permutation(np.append(usual, wild)))
    assert found == (usual.min(), usual.max())


HEAVY = {
    "normal": lambda r, n: r.normal(size=n),
    "t, 3 degrees": lambda r, n: r.standard_t(3, n),
    "t, 2 degrees": lambda r, n: r.standard_t(2, n),
    "lognormal": lambda r, n: r.lognormal(0, 1, n),
    "wide lognormal": lambda r, n: r.lognormal(0, 2, n),
    "prices": lambda r, n: np.round(r.lognormal(7, 1.5, n)) - 0.01,
    "counts": lambda r, n: r.negative_binomial(0.3, 0.01, n),
    "mixed counts": lambda r, n: r.poisson(r.lognormal(-1, 2, n)),
    "claims": lambda r, n: np.where(r.random(n) < 0.95, 0, r.lognormal(6, 2, n)),
    "flag": lambda r, n: r.random(n) < 0.01,
    "two groups": lambda r, n: r.normal(size=n) + 1e6 * (r.random(n) < 0.1),
    "weibull": lambda r, n: r.weibull(0.3, n),
}


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_are_within_reason(name: str) -> None:
    random = np.random.default_rng(0)
    for count, repeats in ((30, 300), (200, 500), (2000, 200)):
        for _ in range(repeats):
            values = HEAVY[name](random, count).astype(float)
            assert usual_range(values) == (values.min(), values.max())


def test_a_wild_cell_is_clipped_wherever_the_model_goes(
    cheap: Make, line: Rows, tmp_path: Path
) -> None:
    """In training, in new rows, in a folder, in an ONNX file."""
    x, y = line
    model = cheap().fit(x, y)
    plain = cheap(clip_features=False).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), plain.predict(x))
    wild = x.copy()
    wild[7, 0] = 1e12
    longer = {"epochs": 40, "patience": None, "learning_rate": 0.05}
    calm = cheap(**longer).fit(wild, y)
    rest = np.delete(np.arange(60), 7)
    assert calm.score(x[rest], y[rest]) > 0.7
    assert cheap(**longer, clip_features=False).fit(wild, y).score(x, y) < 0.2
    low, high = calm.model_.members.networks.limits
    expected = calm.predict(wild.clip(low, high))
    np.testing.assert_array_equal(calm.predict(wild), expected)
    calm.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(wild), expected)
    paper = CalibratedRegressor.paper(epochs=1).fit(x, y)
    assert paper.model_.members.networks.limits is None
    session = onnxruntime.InferenceSession(export_onnx(calm, tmp_path / "model.onnx"))
    np.testing.assert_allclose(
        session.run(["mean"], {"features": wild})[0], expected, rtol=1e-4
    )
