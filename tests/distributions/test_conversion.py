"""Whatever a model returns becomes a distribution of ours, or says why not."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

import calibrant.distributions as package
from calibrant.distributions import (
    DISTRIBUTIONS,
    CdfDistribution,
    Gaussian,
    GaussianMixture,
    Laplace,
    ScipyDistribution,
    StudentT,
    TorchDistribution,
    as_distribution,
)
from calibrant.validation import InputError, UnsupportedError

double = partial(torch.tensor, dtype=torch.float64)
M, S = double([0.0, 1.0]), double([1.0, 2.0])


class OnlyCdf:
    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        return value


@pytest.mark.parametrize(
    ("prediction", "kind"),
    [
        (Gaussian(M, S), Gaussian),
        ((M, S), Gaussian),
        (([0.0, 1.0], np.array([1.0, 2.0])), Gaussian),
        (distributions.Normal(M, S), Gaussian),
        (distributions.Laplace(M, S), Laplace),
        (distributions.StudentT(S, M, S), StudentT),
        (distributions.LogNormal(M, S), TorchDistribution),
        (stats.norm(M, S), ScipyDistribution),
        (stats.Normal(mu=M.numpy(), sigma=S.numpy()), ScipyDistribution),
        (OnlyCdf(), CdfDistribution),
    ],
)
def test_recognizes(prediction: object, kind: type) -> None:
    predictive = as_distribution(prediction)
    assert type(predictive) is kind
    assert predictive.batch_shape in [(2,), ()]


def test_torch_distributions_keep_values_and_gradients() -> None:
    scale = S.clone().requires_grad_()
    y = torch.tensor([0.3, -2.0])
    for predictive in (distributions.Normal(M, scale), distributions.Laplace(M, scale)):
        ours = as_distribution(predictive)
        torch.testing.assert_close(ours.log_prob(y), predictive.log_prob(y))
        torch.testing.assert_close(ours.cdf(y), predictive.cdf(y))
    student = distributions.StudentT(torch.tensor([3.0, 4.0]), M, scale)
    torch.testing.assert_close(
        as_distribution(student).log_prob(y), student.log_prob(y)
    )
    as_distribution(student).crps(y).sum().backward()
    assert scale.grad is not None


@pytest.mark.parametrize("shared", [False, True])
def test_mixtures_move_their_components_to_the_front(shared: bool) -> None:
    probs = torch.tensor([0.2, 0.5, 0.3])
    normal = distributions.Normal(torch.randn(4, 3), torch.rand(4, 3) + 0.1)
    weights = probs.expand(1, 3) if shared else probs.expand(4, 3)
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(weights), normal
    )
    predictive = as_distribution(mixture)
    assert isinstance(predictive, GaussianMixture)
    assert predictive.means.shape == (3, 4)
    y = torch.randn(4)
    torch.testing.assert_close(predictive.log_prob(y), mixture.log_prob(y))
    torch.testing.assert_close(predictive.mean, mixture.mean)


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (distributions.Independent(distributions.Normal(M, S), 1), r"base_dist.*dim="),
        (distributions.Beta(S, S), "torch's Beta has none"),
        (distributions.Dirichlet(S), "event_shape"),
        (M, r"one Tensor: a point prediction"),
        (np.zeros(3), "one ndarray"),
        (np.zeros((3, 2)), r"\(3, 2\).*Empirical\(samples\).*QuantileTable\(levels"),
        (torch.zeros(3, 2), r"first axis are Empirical.*standard deviation"),
        (stats.norm, r"family scipy\.stats\.norm\. Freeze it"),
        (stats.poisson, r"Freeze it: stats\.poisson"),
        (stats.poisson(3), "continuous, got a rv_discrete_frozen"),
        (stats.Binomial(n=3, p=0.5), "continuous, got a Binomial"),
        (stats.Normal, "the class Normal: pass an instance"),
        ((M, S, S), "a tuple of 3: give the mean"),
        (Gaussian, "the class Gaussian: pass an instance"),
        ("normal", "got a str"),
        (None, "got a NoneType"),
    ],
)
def test_refuses_with_what_is_accepted(prediction: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_distribution(prediction)


def test_scipy_like_objects_need_not_be_frozen() -> None:
    class Plain:
        cdf, sf, ppf, isf = (
            stats.norm.cdf,
            stats.norm.sf,
            stats.norm.ppf,
            stats.norm.isf,
        )
        logpdf, logcdf, logsf = stats.norm.logpdf, stats.norm.logcdf, stats.norm.logsf

    predictive = as_distribution(Plain())
    assert isinstance(predictive, ScipyDistribution)
    assert predictive.cdf(0.0) == 0.5
    with pytest.raises(UnsupportedError, match="not frozen"):
        predictive[:1]


def test_distributions_of_the_new_scipy_say_the_same_as_the_old() -> None:
    new = as_distribution(stats.Normal(mu=M.numpy(), sigma=S.numpy()))
    old, y = as_distribution(stats.norm(M, S)), double([0.3, -2.0])
    for method in ("cdf", "survival", "log_prob", "crps", "pit"):
        torch.testing.assert_close(getattr(new, method)(y), getattr(old, method)(y))
    torch.testing.assert_close(new.interval(0.9), old.interval(0.9))
    torch.testing.assert_close(new.mean, old.mean)
    torch.testing.assert_close(new.variance, old.variance)
    with pytest.raises(UnsupportedError, match="not frozen"):
        new[:1]


def test_names_are_known_without_torch() -> None:
    code = (
        "import sys, calibrant.distributions as d; "
        "assert 'torch' not in sys.modules, 'torch is loaded'; "
        "assert 'gaussian' in d.DISTRIBUTIONS and 'Gaussian' in dir(d)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_loads() -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert {predictive.__name__ for predictive in DISTRIBUTIONS.values()} <= set(
        package.__all__
    )
    with pytest.raises(AttributeError, match="attribute Gausian"):
        package.Gausian  # noqa: B018
