"""What every regressor offers that predicts laws."""

from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_random_state

from calibrant._checks import ArrayLike, InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.metrics.evaluate import evaluate
from calibrant.metrics.scorecard import Scorecard

__all__ = ["LawPredictions"]

Array = npt.NDArray[np.float64]


class LawPredictions(ABC):
    """Means, intervals, quantiles and samples of a predicted law, as arrays."""

    @abstractmethod
    def predict_distribution(self, X: Any) -> AbstractDistribution:  # noqa: ANN401
        """Predict the law of each row, batch shape ``(n,)``."""

    def predict(
        self,
        X: Any,  # noqa: ANN401
        return_std: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Predict the mean of each row, shape ``(n,)``.

        Parameters
        ----------
        X
            Features, shape ``(n, d)``.
        return_std
            Give the standard deviations too, ``(mean, std)``.
        """
        law = self.predict_distribution(X)
        if return_std:
            return law.mean.numpy(), law.stddev.numpy()
        mean: Array = law.mean.numpy()
        return mean

    def predict_var(self, X: Any) -> Array:  # noqa: ANN401
        """Predict the variance of each row, shape ``(n,)``."""
        variance: Array = self.predict_distribution(X).variance.numpy()
        return variance

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:  # noqa: ANN401
        """Predict central intervals that hold the target with this probability.

        Returns
        -------
        ndarray
            Lower and upper ends, shape ``(n, 2)``.
        """
        given: object = coverage  # a type is a promise that callers may break
        if not isinstance(given, Real):
            raise InputError(
                f"coverage must be one number, got {coverage!r}. For several intervals "
                "ask predict_quantiles for their ends."
            )
        ends = self.predict_distribution(X).interval(float(coverage))
        interval: Array = torch.stack(ends, dim=-1).numpy()
        return interval

    def predict_quantiles(
        self,
        X: Any,  # noqa: ANN401
        levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95),
    ) -> Array:
        """Predict quantiles at ``k`` levels, shape ``(n, k)``."""
        quantiles: Array = self.predict_distribution(X).quantiles(levels).numpy()
        return quantiles

    def sample(
        self,
        X: Any,  # noqa: ANN401
        size: int = 100,
        *,
        random_state: int | np.random.RandomState | None = None,
    ) -> Array:
        """Draw targets for each row, shape ``(n, size)``."""
        given: object = size  # a type is a promise that callers may break
        if not isinstance(given, Integral) or size < 1:
            raise InputError(f"size must be a whole number >= 1, got {size!r}.")
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        generator = torch.Generator().manual_seed(seed)
        law = self.predict_distribution(X)
        draws: Array = law.sample((int(size),), generator=generator).T.numpy()
        return draws

    def evaluate(
        self,
        X: Any,  # noqa: ANN401
        y: ArrayLike,
        **options: Any,  # noqa: ANN401  (of ``calibrant.evaluate``)
    ) -> Scorecard:
        """Measure accuracy, sharpness and calibration on rows that are new to it.

        Parameters
        ----------
        X, y
            Features ``(n, d)`` and targets ``(n,)``.
        **options
            ``features``, ``groups`` and ``seed`` of ``calibrant.evaluate``.
        """
        return evaluate(self.predict_distribution(X), np.asarray(y), **options)
