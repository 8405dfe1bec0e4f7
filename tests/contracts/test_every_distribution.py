"""What every distribution must do. A new one is tested by one line in ``EXAMPLES``."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, distributions

from calibrant import ConditionalRegularizer, QuantileRegularizer
from calibrant.distributions import (
    DISTRIBUTIONS,
    AbstractDistribution,
    CdfDistribution,
    Censored,
    Empirical,
    Gaussian,
    GaussianMixture,
    Laplace,
    Mixture,
    QuantileTable,
    Recalibrated,
    ScipyDistribution,
    StudentT,
    TorchDistribution,
    Transformed,
    Truncated,
)
from calibrant.distributions.derived import Affine
from calibrant.recalibration.maps import BetaMap
from calibrant.transforms import TRANSFORMS, from_functions
from calibrant.validation import InputError

double = partial(torch.tensor, dtype=torch.float64)
LOCATION, SCALE = double([0.0, -3.0, 50.0]), double([1.0, 0.2, 10.0])
DRAWS = LOCATION + SCALE * torch.randn(
    40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5)
)


ARCSINH = from_functions(
    torch.asinh, torch.sinh, lambda y: -0.5 * torch.log1p(y.square())
)


class Example(NamedTuple):
    """Three rows, near ``LOCATION`` and about as wide as ``SCALE``."""

    build: Callable[..., AbstractDistribution]
    parameters: tuple[Tensor, ...]
    jump: float = 0.0  # height of the steps of the cdf

    def predictive(self, dtype: torch.dtype = torch.float64) -> AbstractDistribution:
        return self.build(*(parameter.to(dtype) for parameter in self.parameters))


EXAMPLES = {
    "gaussian": Example(Gaussian, (LOCATION, SCALE)),
    "laplace": Example(Laplace, (LOCATION, SCALE)),
    "student_t": Example(StudentT, (double([2.5, 6.0, 90.0]), LOCATION, SCALE)),
    "gaussian_mixture": Example(
        lambda means, stddevs, raw: GaussianMixture(means, stddevs, raw.softmax(0)),
        (
            torch.stack([LOCATION, LOCATION + 2 * SCALE]),
            torch.stack([SCALE, 0.5 * SCALE]),
            double([[0.0, 1.0, -1.0], [0.3, 0.0, 0.5]]),
        ),
    ),
    "empirical": Example(Empirical, (DRAWS,), jump=1 / 40),
    "quantile_table": Example(
        lambda values: QuantileTable([0.1, 0.4, 0.6, 0.9], values),
        (LOCATION[:, None] + SCALE[:, None] * double([-1.5, -0.2, 0.3, 1.0]),),
    ),
    "torch": Example(
        lambda *parameters: TorchDistribution(distributions.Gumbel(*parameters)),
        (LOCATION, SCALE),
    ),
    "scipy": Example(
        lambda *parameters: ScipyDistribution(
            stats.logistic(*(p.numpy() for p in parameters))
        ),
        (LOCATION, SCALE),
    ),
    "mixture": Example(
        lambda mean, stddev, raw: Mixture(
            [Gaussian(mean, stddev), Gaussian(mean + stddev, stddev / 2)],
            raw.softmax(0),
        ),
        (LOCATION, SCALE, double([0.3, -0.2])),
    ),
    "recalibrated": Example(
        lambda *given: Recalibrated(Gaussian(*given), BetaMap(0.8, 1.3, 0.2)),
        (LOCATION, SCALE),
    ),
    "recalibrated_mixture": Example(
        lambda means, stddev: Recalibrated(
            GaussianMixture(means, torch.stack([stddev, stddev])), BetaMap(0.8, 1.3, 0)
        ),
        (torch.stack([LOCATION, LOCATION + 2 * SCALE]), SCALE),
    ),
    "transformed": Example(
        lambda mean, stddev: Transformed(
            Gaussian(mean.asinh(), stddev / (1 + mean.square()).sqrt()), ARCSINH
        ),
        (LOCATION, SCALE),
    ),
    "truncated": Example(
        lambda *given: Truncated(Gaussian(*given), LOCATION - 1.7 * SCALE),
        (LOCATION, SCALE),
    ),
    "censored": Example(
        lambda *given: Censored(Gaussian(*given), high=LOCATION + 1.5 * SCALE),
        (LOCATION, SCALE),
        jump=0.07,
    ),
    "affine": Example(
        lambda mean, stddev: Affine(
            TorchDistribution(distributions.Gumbel(0 * mean, 1.0)), mean, stddev
        ),
        (LOCATION, SCALE),
    ),
}
SMOOTH = [name for name, example in EXAMPLES.items() if not example.jump]
TRAINABLE = [name for name in EXAMPLES if name != "scipy"]
LEVELS = double([0.01, 0.1, 0.37, 0.5, 0.8, 0.99])


@pytest.fixture(params=EXAMPLES.values(), ids=EXAMPLES.keys())
def example(request: pytest.FixtureRequest) -> Example:
    return request.param


def test_every_distribution_of_the_table_has_an_example() -> None:
    assert set(DISTRIBUTIONS) <= set(EXAMPLES)


def test_quantile_inverts_the_cdf(example: Example) -> None:
    predictive = example.predictive()
    quantiles = predictive.quantiles(LEVELS)
    assert quantiles.shape == (3, 6)
    back = predictive.cdf(quantiles.T).T
    assert (back >= LEVELS - 1e-10).all()
    assert (back <= LEVELS + example.jump + 1e-10).all()
    torch.testing.assert_close(predictive.quantile(back.T).T, quantiles)
    assert (quantiles.diff(dim=-1) >= 0).all()


def test_both_tails_and_their_logs_agree(example: Example) -> None:
    predictive = example.predictive()
    y = LOCATION + SCALE * double([-2.0, -0.3, 0.0, 0.7, 3.0])[:, None]
    pit = predictive.pit(y)
    torch.testing.assert_close(pit.cdf, predictive.cdf(y))
    torch.testing.assert_close(pit.survival, predictive.survival(y))
    torch.testing.assert_close(pit.cdf + pit.survival, torch.ones(5, 3))
    torch.testing.assert_close(pit.log_cdf.exp(), pit.cdf)
    torch.testing.assert_close(pit.log_survival.exp(), pit.survival)
    assert (pit.key.diff(dim=0) >= 0).all()


@pytest.mark.parametrize("name", SMOOTH)
def test_density_integrates_to_differences_of_the_cdf(name: str) -> None:
    predictive = EXAMPLES[name].predictive()
    knots = predictive.quantiles(double([0.02, 0.1, 0.4, 0.5, 0.6, 0.9, 0.98])).T
    nodes, weights = (
        torch.tensor(part)[:, None, None]
        for part in np.polynomial.legendre.leggauss(30)
    )
    width = knots.diff(dim=0) / 2
    density = predictive.log_prob(knots[:-1] + width * (1 + nodes)).exp()
    mass = (weights * width * density).sum(0)
    torch.testing.assert_close(
        mass, predictive.cdf(knots).diff(dim=0), rtol=1e-6, atol=1e-8
    )


def test_samples_follow_the_distribution(
    example: Example, generator: torch.Generator
) -> None:
    predictive, n = example.predictive(), 20_000
    drawn = predictive.sample((n,), generator=generator)
    assert drawn.shape == (n, 3)
    assert not drawn.requires_grad
    # With 2.5 degrees of freedom there is no fourth moment: the mean is slow.
    assert (
        (drawn.mean(0) - predictive.mean).abs() < 6 * predictive.stddev / n**0.5
    ).all()
    for level in (0.05, 0.5, 0.9):
        at = predictive.quantile(level)
        expected = predictive.cdf(at)
        error = (drawn <= at).double().mean(0) - expected
        assert (error.abs() < 5 * (expected * (1 - expected) / n).sqrt()).all()
    generator.manual_seed(0)
    assert torch.equal(drawn, predictive.sample((n,), generator=generator))


def test_interval_holds_its_coverage(example: Example) -> None:
    predictive = example.predictive()
    lower, upper = predictive.interval(0.8)
    covered = predictive.cdf(upper) - predictive.cdf(lower)
    assert ((covered - 0.8).abs() <= example.jump + 1e-10).all()
    with pytest.raises(InputError, match="coverage must lie strictly between"):
        predictive.interval(80.0)


def test_moments_and_score_have_the_batch_shape(example: Example) -> None:
    predictive = example.predictive()
    assert (
        predictive.mean.shape
        == predictive.variance.shape
        == predictive.stddev.shape
        == (3,)
    )
    # The score of a distribution at its median is less than the mean distance from it.
    score = predictive.crps(predictive.quantile(0.5))
    assert ((score > 0) & (score < predictive.stddev)).all()
    far = 1e6 * SCALE
    torch.testing.assert_close(predictive.crps(LOCATION + far), far, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    "rows", [slice(1, 3), torch.tensor([2, 0])], ids=["slice", "index"]
)
def test_selects_rows(example: Example, rows: slice | Tensor) -> None:
    predictive, y = example.predictive(), LOCATION + 0.3 * SCALE
    part = predictive[rows]
    assert part.batch_shape == (2,)
    assert len(part) == 2
    assert type(part) is type(predictive)
    torch.testing.assert_close(part.cdf(y[rows]), predictive.cdf(y)[rows])
    torch.testing.assert_close(part.crps(y[rows]), predictive.crps(y)[rows])
    assert type(predictive).__name__ in repr(predictive)


def test_takes_more_axes_in_front_and_refuses_columns(example: Example) -> None:
    predictive = example.predictive()
    y = torch.stack([LOCATION, LOCATION + SCALE])
    assert (
        predictive.cdf(y).shape
        == predictive.crps(y).shape
        == predictive.quantile(predictive.cdf(y)).shape
        == (2, 3)
    )
    torch.testing.assert_close(predictive.crps(y)[1], predictive.crps(y[1]))
    assert predictive.cdf(0.0).shape == predictive.quantile(0.3).shape == (3,)
    for ask in (
        predictive.cdf,
        predictive.survival,
        predictive.pit,
        predictive.crps,
        predictive.log_prob,
    ):
        with pytest.raises(InputError, match=r"value\.squeeze\(-1\)"):
            ask(LOCATION[:, None])
    with pytest.raises(InputError, match="n x n values"):
        predictive.quantile(LEVELS)


def test_refuses_what_is_not_a_number(example: Example) -> None:
    predictive = example.predictive()
    with pytest.raises(InputError, match=r"finite.*value\[1\] = nan"):
        predictive.cdf(double([0.0, torch.nan, 1.0]))
    with pytest.raises(InputError, match="must be a float tensor"):
        predictive.crps(torch.tensor([1, 2, 3]))
    with pytest.raises(InputError, match=r"0\.9 for 90"):
        predictive.quantile(90.0)
    with pytest.raises(InputError, match=r"levels must have shape \(k,\)"):
        predictive.quantiles([[0.1, 0.2]])


@pytest.mark.parametrize("method", ["cdf", "survival", "crps"])
@pytest.mark.parametrize("name", TRAINABLE)
def test_gradients_match_finite_differences(name: str, method: str) -> None:
    example = EXAMPLES[name]
    if example.jump and method != "crps":
        pytest.skip("a step function has no gradient")
    parameters = [p.clone().requires_grad_() for p in example.parameters]
    y = (LOCATION + SCALE * double([[-1.1], [0.8]])).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda at, *given: getattr(example.build(*given), method)(at),
        (y, *parameters),
        atol=1e-4,
    )


DERIVED: dict[str, Callable[[AbstractDistribution], AbstractDistribution]] = {
    "itself": lambda base: base,
    "truncated": lambda base: Truncated(base, LOCATION - SCALE, LOCATION + 2 * SCALE),
    "censored": lambda base: Censored(base, -3.1, 60.0),
    "transformed": lambda base: Transformed(
        base, TRANSFORMS["yeo_johnson"]().fit(DRAWS.flatten())
    ),
    "recalibrated": lambda base: Recalibrated(base, BetaMap(0.8, 1.3, 0.2)),
    "affine": lambda base: Affine(base, LOCATION, SCALE),
    "mixture": lambda base: Mixture([base, Gaussian(LOCATION, SCALE)]),
}


@pytest.mark.parametrize("derived", DERIVED)
@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_regularizers_train_what_every_distribution_is_made_of(
    name: str, derived: str
) -> None:
    example = EXAMPLES[name]
    parameters = [p.clone().requires_grad_() for p in example.parameters]
    predictive = DERIVED[derived](example.build(*parameters))
    y = LOCATION + SCALE * double([-0.4, 0.3, 0.6])
    for regularizer in (QuantileRegularizer(), ConditionalRegularizer(groups=1)):
        if name == "empirical":
            with pytest.raises(InputError, match="cdf has a gradient"):
                regularizer(predictive, y)
            continue
        loss = regularizer(predictive, y)
        assert loss.isfinite()
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_float32_is_finite_far_out(name: str) -> None:
    predictive, wide = (
        EXAMPLES[name].predictive(torch.float32),
        EXAMPLES[name].predictive(),
    )
    z = torch.tensor([-1e6, -1e3, -30.0, -1.0, 0.0, 1.0, 30.0, 1e3, 1e6])
    y = (LOCATION + SCALE * z[:, None]).float().requires_grad_()
    answers = [*predictive.pit(y), predictive.crps(y)]
    if name != "empirical":
        answers.append(predictive.log_prob(y))
    assert all(answer.dtype == torch.float32 for answer in answers)
    assert all(answer.isfinite().all() for answer in answers)
    sum(answer.sum() for answer in answers).backward()
    assert y.grad.isfinite().all()
    same = y.detach().double()
    # The logarithm of no sample at all is the floor of each float type.
    kinds = 2 if name == "empirical" else 4
    for answer, expected in list(zip(predictive.pit(y), wide.pit(same), strict=True))[
        :kinds
    ]:
        torch.testing.assert_close(answer.double(), expected, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_parameters_are_widened(name: str, dtype: torch.dtype) -> None:
    assert EXAMPLES[name].predictive(dtype).dtype == torch.float32


def test_a_single_distribution_has_no_length() -> None:
    with pytest.raises(TypeError, match="no length"):
        len(Gaussian(0.0, 1.0))


def test_a_distribution_with_only_a_cdf_keeps_the_contract_of_pit_values() -> None:
    class Uniform:
        batch_shape = (3,)

        def cdf(self, value: Any) -> Tensor:
            return value.clamp(0, 1)

    pit = CdfDistribution(Uniform()).pit(double([0.25, 0.5, 2.0]))
    assert pit.cdf.tolist() == [0.25, 0.5, 1.0]
    assert pit.survival.tolist() == [0.75, 0.5, 0.0]
