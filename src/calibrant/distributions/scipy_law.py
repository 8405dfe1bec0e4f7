"""Any frozen continuous law of ``scipy.stats``, or what has its methods."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._checks import UnsupportedError
from calibrant.contracts import PitValues
from calibrant.distributions._quadrature import crps_by_quadrature
from calibrant.distributions.base import AbstractDistribution

__all__ = ["RenamedScipyLaw", "ScipyLaw"]


class ScipyLaw(AbstractDistribution):
    """Adapter of a frozen continuous law of ``scipy.stats``.

    Everything is float64 on the CPU and without gradient: it is for measuring and
    recalibrating a model, not for training one. ``crps`` is a quadrature over the
    levels and needs a finite mean.

    Parameters
    ----------
    frozen
        An object with ``cdf``, ``sf``, ``ppf``, ``isf``, ``logcdf``, ``logsf``,
        ``logpdf``, ``mean`` and ``var``; its parameters broadcast to ``batch_shape``.

    Examples
    --------
    >>> from scipy import stats
    >>> law = ScipyLaw(stats.expon(scale=[1.0, 2.0]))
    >>> [round(value, 4) for value in law.quantile(0.5).tolist()]
    [0.6931, 1.3863]
    """

    _parameters = ("_example",)

    def __init__(self, frozen: Any) -> None:  # noqa: ANN401
        self._frozen = frozen
        self._shape = torch.Size(np.shape(frozen.cdf(0.0)))
        self._example = torch.empty((), dtype=torch.float64)

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws."""
        return self._shape

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``."""
        return _tensor(self._frozen.mean()).expand(self._shape)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``."""
        return _tensor(self._frozen.var()).expand(self._shape)

    def __getitem__(self, rows: slice | Tensor) -> "ScipyLaw":
        """Select rows of the first batch axis."""
        try:
            family, args, named = (
                self._frozen.dist,
                self._frozen.args,
                self._frozen.kwds,
            )
        except AttributeError:
            raise UnsupportedError(
                f"{type(self._frozen).__name__} cannot select rows: it is not a frozen "
                "law of scipy.stats. Freeze one law for the rows you want."
            ) from None
        index = rows.cpu().numpy() if isinstance(rows, Tensor) else rows

        def select(parameter: npt.ArrayLike) -> npt.NDArray[Any]:
            return np.broadcast_to(np.asarray(parameter), tuple(self._shape))[index]

        chosen = {name: select(parameter) for name, parameter in named.items()}
        return ScipyLaw(family(*map(select, args), **chosen))

    def _ask(self, method: Callable[[Any], npt.ArrayLike], value: Tensor) -> Tensor:
        # Logarithms of 0 are what they are; the caller reads -inf, not a warning.
        with np.errstate(divide="ignore"):
            return _tensor(method(value.detach().double().cpu().numpy()))

    def _cdf(self, value: Tensor) -> Tensor:
        return self._ask(self._frozen.cdf, value)

    def _survival(self, value: Tensor) -> Tensor:
        return self._ask(self._frozen.sf, value)

    def _pit(self, value: Tensor) -> PitValues:
        lowest = torch.finfo(torch.float64).min
        log_cdf = self._ask(self._frozen.logcdf, value).clamp_min(lowest)
        log_survival = self._ask(self._frozen.logsf, value).clamp_min(lowest)
        return PitValues(self._cdf(value), self._survival(value), log_cdf, log_survival)

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._ask(self._frozen.logpdf, value)

    def _quantile(self, level: Tensor) -> Tensor:
        return self._ask(self._frozen.ppf, level)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        return self._ask(self._frozen.isf, survival)

    def _crps(self, value: Tensor) -> Tensor:
        if not self.mean.isfinite().all():
            raise UnsupportedError(
                "crps needs a law with a finite mean, and this one has none. "
                "Score with log_prob."
            )
        pit = self._pit(value)
        value = value.detach().double().cpu()
        return crps_by_quadrature(value, pit, self._quantile, self._upper_quantile)


class RenamedScipyLaw:
    """A law of scipy's new interface (``stats.Normal``) under the older names.

    Parameters
    ----------
    law
        An object with ``cdf``, ``ccdf``, ``icdf``, ``iccdf``, ``logpdf``, ``logcdf``,
        ``logccdf``, ``mean`` and ``variance``.
    """

    def __init__(self, law: Any) -> None:  # noqa: ANN401
        self.cdf, self.sf, self.logpdf = law.cdf, law.ccdf, law.logpdf
        self.ppf, self.isf = law.icdf, law.iccdf
        self.logcdf, self.logsf = law.logcdf, law.logccdf
        self.mean, self.var = law.mean, law.variance


def _tensor(values: npt.ArrayLike) -> Tensor:
    return torch.tensor(np.asarray(values, dtype=np.float64))
