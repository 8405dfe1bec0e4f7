"""Coverage and width of central intervals."""

import pytest
import torch

from calibrant import Gaussian, InputError
from calibrant.distributions.empirical import Empirical
from calibrant.metrics.coverage import coverage, coverage_at, mean_width, mean_width_at

LEVELS = [0.5, 0.8, 0.95]


def test_by_hand() -> None:
    law = Gaussian([0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 2.0, 2.0])
    assert coverage(law, [1.6, 1.7, 13.2, 13.4], level=0.9) == 0.5
    assert mean_width(law, level=0.9) == pytest.approx(2 * 1.6448536269514722 * 1.5)


def test_ends_of_the_interval_belong_to_it() -> None:
    law = Empirical(torch.arange(1.0, 11.0)[:, None].expand(10, 4))
    lower, upper = law.interval(0.8)
    y = torch.stack([lower[0], lower[1] - 1e-9, upper[2], upper[3] + 1e-9])
    assert coverage(law, y, level=0.8) == 0.5


def test_calibrated_model_shows_the_level(generator: torch.Generator) -> None:
    stddev = 1 + torch.rand(40_000, generator=generator)
    y = stddev * torch.randn(40_000, generator=generator)
    law = Gaussian(torch.zeros(40_000), stddev)
    for level, share in zip(LEVELS, coverage_at(law, y, levels=LEVELS), strict=True):
        assert share.item() == pytest.approx(level, abs=0.01)


def test_many_levels_are_the_single_ones() -> None:
    law, y = Gaussian(torch.randn(30), 1.5), torch.randn(30)
    one_by_one = [coverage(law, y, level=level) for level in LEVELS]
    assert coverage_at(law, y, levels=LEVELS).tolist() == one_by_one
    widths = [mean_width(law, level=level) for level in LEVELS]
    assert mean_width_at(law, levels=LEVELS).tolist() == widths


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_levels_at_the_ends_are_refused(level: float) -> None:
    law = Gaussian([0.0], 1.0)
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        coverage(law, [0.0], level=level)
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        mean_width_at(law, levels=[0.5, level])


@pytest.mark.parametrize("levels", [0.5, [], [[0.5]]])
def test_levels_must_be_a_list(levels: object) -> None:
    with pytest.raises(InputError, match=r"levels must have shape \(k,\)"):
        coverage_at(Gaussian([0.0], 1.0), [0.0], levels=levels)  # type: ignore[arg-type]
