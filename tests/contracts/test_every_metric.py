"""What every metric in the table must do, whatever law it is given."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant import Gaussian, InputError
from calibrant.distributions.empirical import Empirical
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.quantile_table import QuantileTable
from calibrant.distributions.student_t import StudentT
from calibrant.metrics import METRICS
from calibrant.validation import UnsupportedError

N = 60
SPREAD_ONLY = ("sharpness", "mean_stddev", "dispersion")
EVERY = pytest.mark.parametrize("name", list(METRICS))
SOURCE = torch.Generator().manual_seed(5)
MEAN = torch.randn(N, generator=SOURCE, dtype=torch.float64)
STDDEV = 0.5 + torch.rand(N, generator=SOURCE, dtype=torch.float64)
NOISE = torch.randn(9, N, generator=SOURCE, dtype=torch.float64)
Y = MEAN + STDDEV * NOISE[0]
LEVELS = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9], dtype=torch.float64)


def predictions(order: Tensor | None = None) -> dict[str, object]:
    """Return one law of each kind, the rows in the given order."""
    rows = torch.arange(N) if order is None else order
    mean, stddev, noise = MEAN[rows], STDDEV[rows], NOISE[:, rows]
    gaussian = Gaussian(mean, stddev)
    return {
        "Gaussian": gaussian,
        "float32": Gaussian(mean.float(), stddev.float()),
        "pair of arrays": (mean.numpy(), stddev.numpy()),
        "torch Normal": torch.distributions.Normal(mean, stddev),
        "Laplace": Laplace(mean, stddev),
        "StudentT": StudentT(4.0, mean, stddev),
        "GaussianMixture": GaussianMixture(torch.stack([mean - 0.5, mean]), 0.8),
        "Empirical": Empirical(mean + stddev * noise),
        "QuantileTable": QuantileTable(LEVELS, gaussian.quantiles(LEVELS)),
    }


# Samples have no density.
EVERY_PAIR = pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in METRICS
        for kind in predictions()
        if (name, kind) != ("nll", "Empirical")
    ],
)


@EVERY_PAIR
def test_gives_a_finite_float(name: str, kind: str) -> None:
    value = METRICS[name](predictions()[kind], Y)
    assert type(value) is float
    assert math.isfinite(value)


def test_samples_have_no_likelihood() -> None:
    with pytest.raises(UnsupportedError, match="samples have none"):
        METRICS["nll"](predictions()["Empirical"], Y)


@EVERY
def test_same_law_in_other_clothes_gives_the_same_number(name: str) -> None:
    laws = predictions()
    expected = METRICS[name](laws["Gaussian"], Y)
    for kind in ("pair of arrays", "torch Normal"):
        assert METRICS[name](laws[kind], Y.numpy()) == pytest.approx(expected)


@EVERY_PAIR
def test_order_of_rows_does_not_matter(name: str, kind: str) -> None:
    randomized = kind == "Empirical" and "calibration" in name
    # Ranks among samples are randomized row by row.
    tolerance = 0.5 if randomized else 1e-6
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    expected = METRICS[name](predictions()[kind], Y)
    shuffled = METRICS[name](predictions(order)[kind], Y[order])
    assert shuffled == pytest.approx(expected, rel=tolerance, abs=1e-9)


GOOD = Gaussian(MEAN, STDDEV)
COLUMN = Gaussian(MEAN[:, None], STDDEV[:, None])
FOR_EACH_ROW = r"one distribution for each row.*got \(60, 1\)"
BAD = {
    "column of targets": (GOOD, Y[:, None], r"Use y.squeeze\(-1\)"),
    "column of predictions": (COLUMN, Y, "last axis of 1"),
    "columns of both": (COLUMN, Y[:, None], FOR_EACH_ROW),
    "members": (Gaussian(torch.stack([MEAN, MEAN]), 1.0), Y, "one by one"),
    "repeated": (GOOD, torch.stack([Y, Y]), r"y must have shape \(n,\) with n >= 1"),
    "fewer rows": (GOOD, Y[1:], r"batch shape \(60,\).*got \(59,\)"),
    "missing": (GOOD, Y.where(Y.min() < Y, math.nan), r"y must be finite.*= nan"),
    "no rows": (Gaussian(np.zeros(0), np.ones(0)), np.zeros(0), "n >= 1"),
    "one for all rows": (Gaussian(0.0, 1.5), Y, r"each row.*np\.full\(n, mean"),
    "one pair": ((0.0, 1.5), Y, r"each row.*np\.full\(n, mean"),
}


@EVERY
@pytest.mark.parametrize(("given", "y", "text"), BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_refused(
    name: str, given: object, y: object, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        METRICS[name](given, y)


@pytest.mark.parametrize("name", [name for name in METRICS if name not in SPREAD_ONLY])
def test_missing_predictions_are_refused(name: str) -> None:
    mean = MEAN.clone()
    mean[3] = math.nan
    with pytest.raises(InputError, match=r"finite|NaN"):
        METRICS[name](Gaussian(mean, STDDEV), Y)


@EVERY
def test_a_network_s_output_may_carry_gradients(name: str) -> None:
    law = Gaussian(MEAN.clone().requires_grad_(), STDDEV.clone().requires_grad_())
    expected = METRICS[name](Gaussian(MEAN, STDDEV), Y)
    assert METRICS[name](law, Y) == pytest.approx(expected)


@EVERY
def test_takes_every_other_row_of_a_table(name: str) -> None:
    table = torch.stack([MEAN, STDDEV, Y], dim=-1)[::2]
    mean, stddev, y = table.unbind(-1)
    whole = METRICS[name](Gaussian(mean.clone(), stddev.clone()), y.clone())
    assert METRICS[name](Gaussian(mean, stddev), y) == pytest.approx(whole)


@EVERY
def test_says_what_it_is(name: str) -> None:
    metric = METRICS[name]
    assert metric.__doc__
    assert len(metric.__doc__.strip().splitlines()[0]) > 20
    assert "wrapper" not in metric.__name__


def test_law_with_nothing_but_a_cdf_has_a_calibration_error() -> None:
    class Logistic:
        def cdf(self, value: Tensor) -> Tensor:
            return value.sigmoid()

    assert METRICS["calibration_error"](Logistic(), Y) > 0
    with pytest.raises(UnsupportedError, match="has no mean"):
        METRICS["rmse"](Logistic(), Y)


def test_names_are_known_without_torch() -> None:
    code = (
        "import sys; from calibrant.metrics import METRICS; "
        "sys.exit(len(METRICS) < 20 or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", list(METRICS))
def test_the_default_float_type_changes_nothing(name: str) -> None:
    mean, y = torch.randn(2, 50)
    law = Gaussian(mean, 0.5 + mean.square())
    value = METRICS[name](law, y)
    torch.set_default_dtype(torch.float32)  # the fixture of each test sets it back
    assert METRICS[name](law, y) == value
