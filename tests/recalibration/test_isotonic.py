"""Isotonic regression as the paper uses it, and what is added to it."""

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression

from calibrant import Gaussian, InputError, calibration_error
from calibrant.recalibration.maps import IsotonicRecalibrator


def test_it_interpolates_its_own_training_points(generator: torch.Generator) -> None:
    # The paper's first point against it: the targets of the regression are ranks,
    # which increase already, so nothing is smoothed and the training error is 0.
    pit = torch.rand(200, generator=generator) ** 3
    fitted = IsotonicRecalibrator(floor=0).fit_pit(pit)
    ranks = torch.argsort(torch.argsort(pit)) + 1
    torch.testing.assert_close(fitted.apply(pit), ranks / 200)
    assert calibration_error(fitted.apply(pit)) < 1e-9
    assert calibration_error(pit) > 0.1
    fresh = torch.rand(2000, generator=generator) ** 3
    assert calibration_error(fitted.apply(fresh)) > 1e-3


def test_it_is_the_regression_of_scikit_learn(generator: torch.Generator) -> None:
    pit = (torch.rand(50, generator=generator) * 20).round() / 20  # with ties
    observed = (pit[:, None] >= pit).double().mean(1)
    regression = IsotonicRegression(out_of_bounds="clip").fit(
        np.append(0.0, pit), np.append(0.0, observed)
    )
    levels = torch.linspace(pit[pit > 0].min(), 1, 300)
    expected = torch.from_numpy(regression.predict(levels.numpy()))
    torch.testing.assert_close(
        IsotonicRecalibrator(floor=0).fit_pit(pit).apply(levels), expected
    )


def test_the_floor_is_one_row_more(generator: torch.Generator) -> None:
    pit = 0.9 * torch.rand(19, generator=generator)
    levels = torch.linspace(0, 1, 100)
    pure = IsotonicRecalibrator(floor=0).fit_pit(pit).apply(levels)
    used = IsotonicRecalibrator().fit_pit(pit).apply(levels)
    torch.testing.assert_close(used, (19 * pure + levels) / 20)


def test_no_target_has_a_likelihood_of_zero_unless_asked_for() -> None:
    pit = torch.linspace(0.1, 0.8, 20)
    law = Gaussian(torch.zeros(3), 1.0)
    outlier = torch.tensor([0.0, 3.0, 12.0])
    used = IsotonicRecalibrator().fit_pit(pit).transform(law)
    floor = law.log_prob(outlier) - torch.tensor(21.0).log()
    assert (used.log_prob(outlier) >= floor - 1e-9).all()
    pure = IsotonicRecalibrator(floor=0).fit_pit(pit).transform(law)
    assert pure.log_prob(outlier)[1:].tolist() == [-torch.inf, -torch.inf]
    assert pure.survival(outlier)[1:].tolist() == [0, 0]
    assert torch.isfinite(pure.log_prob(outlier)[0])


def test_the_floor_holds_next_to_one_where_heights_round() -> None:
    pit = torch.cat([torch.linspace(0.1, 0.9, 20), torch.tensor([1 - 1e-15])])
    law = IsotonicRecalibrator().fit_pit(pit).transform(Gaussian([0.0], 1.0))
    assert torch.isfinite(law.log_prob([9.0])).all()


def test_flat_pieces_have_the_smallest_quantile() -> None:
    fitted = IsotonicRecalibrator(floor=0).fit_pit([0.2, 0.4])
    assert fitted.invert([0.0, 0.5, 1.0]).tolist() == [0.0, 0.2, 0.4]
    law = fitted.transform(Gaussian([0.0], 1.0))
    torch.testing.assert_close(law.quantile(1.0), law.base.quantile(0.4))
    assert law.quantile(0.0).tolist() == [-torch.inf]
    assert torch.isfinite(law.mean).all()
    assert torch.isfinite(law.crps([0.0])).all()


@pytest.mark.parametrize("floor", [-0.1, 1.0])
def test_a_floor_outside_its_range_is_refused(floor: float) -> None:
    with pytest.raises(InputError, match=rf"below 1, got {floor}.*1 / \(n \+ 1\)"):
        IsotonicRecalibrator(floor=floor)
