"""The map with three parameters."""

import pytest
import torch

from calibrant import InputError
from calibrant._checks import pit_from_cdf
from calibrant.recalibration.maps import BetaMap, BetaRecalibrator


def test_the_fit_finds_the_map_that_made_the_data(generator: torch.Generator) -> None:
    truth = BetaMap(0.4, 0.7, 0.5)
    uniform = torch.rand(20_000, generator=generator)
    pit = truth.inverse(pit_from_cdf(uniform))
    found = BetaRecalibrator().fit_pit(pit).unit_map
    for name, value in truth.state().items():
        assert getattr(found, name) == pytest.approx(value, abs=0.03)


def test_the_fit_is_a_maximum(generator: torch.Generator) -> None:
    pit = pit_from_cdf(torch.rand(60, generator=generator) ** 2)

    def penalized(a: float, b: float, c: float) -> float:
        likelihood = BetaMap(a, b, c).log_density(pit).sum()
        ab = torch.tensor([a, b])
        return float(likelihood - (ab - ab.log() - 1).sum() - c**2 / 2)

    found = BetaRecalibrator().fit_pit(pit).unit_map
    a, b, c = found.lower, found.upper, found.shift
    best = penalized(a, b, c)
    for step in (-1e-3, 1e-3):
        assert penalized(a + step, b, c) < best
        assert penalized(a, b + step, c) < best
        assert penalized(a, b, c + step) < best


def test_the_identity_needs_no_correction() -> None:
    evenly = (torch.arange(1000) + 0.5) / 1000
    found = BetaRecalibrator().fit_pit(evenly).unit_map
    assert found.lower == pytest.approx(1, abs=0.02)
    assert found.upper == pytest.approx(1, abs=0.02)
    assert found.shift == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize(("a", "b", "c"), [(0.01, 5.0, 3.0), (8.0, 0.1, -4.0)])
def test_the_inverse_of_crooked_maps(a: float, b: float, c: float) -> None:
    levels = pit_from_cdf(torch.tensor([1e-12, 1e-3, 0.4, 0.999]))
    crooked = BetaMap(a, b, c)
    back = crooked.forward(crooked.inverse(levels))
    torch.testing.assert_close(back.log_cdf, levels.log_cdf)
    torch.testing.assert_close(back.log_survival, levels.log_survival)


@pytest.mark.parametrize("a", [0.0, -1.0, float("nan")])
def test_parameters_are_checked(a: float) -> None:
    with pytest.raises(InputError, match=r"above 0, and all finite; got lower="):
        BetaMap(a, 1.0, 0.0)
