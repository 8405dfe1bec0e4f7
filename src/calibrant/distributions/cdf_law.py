"""A law of which only the cdf is known for certain."""

from typing import Any

import torch
from torch import Tensor

from calibrant._checks import InputError, UnsupportedError, as_float_tensor
from calibrant.contracts import HasCdf, PitValues
from calibrant.distributions.base import AbstractDistribution

__all__ = ["CdfLaw"]


class CdfLaw(AbstractDistribution):
    """Adapter of any object with a ``cdf``, enough for PIT values.

    ``log_prob``, ``quantile``, ``crps``, ``mean`` and ``variance`` are the object's own
    if it has them (the last two as attributes or methods), else an
    :class:`UnsupportedError` says what is missing. If it has no ``batch_shape``, values
    of any shape are passed on.

    Parameters
    ----------
    law
        An object whose ``cdf`` maps a tensor to a tensor of that shape.

    Examples
    --------
    >>> class Logistic:
    ...     def cdf(self, value):
    ...         return value.sigmoid()
    >>> CdfLaw(Logistic()).pit([0.0]).survival.tolist()
    [0.5]
    """

    _parameters = ("_example",)

    def __init__(self, law: HasCdf) -> None:
        self._law = law
        self._example = torch.empty(())

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of laws, ``()`` if the object does not say."""
        return torch.Size(getattr(self._law, "batch_shape", ()))

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, as the object gives it."""
        return self._moment("mean")

    @property
    def variance(self) -> Tensor:
        """Variance of each row, as the object gives it."""
        return self._moment("variance")

    def __getitem__(self, rows: slice | Tensor) -> "CdfLaw":
        """Select rows of the first batch axis, if the object can."""
        return CdfLaw(self._own("__getitem__")(rows))

    def _moment(self, name: str) -> Tensor:
        own = self._own(name)
        return as_float_tensor(own() if callable(own) else own, name=name)

    def _own(self, name: str) -> Any:  # noqa: ANN401
        try:
            return getattr(self._law, name)
        except AttributeError:
            raise UnsupportedError(
                f"{type(self._law).__name__} has no {name}, only its cdf is known. "
                f"Give it a {name}, or use a law of calibrant.distributions."
            ) from None

    def _answer(self, name: str, value: Tensor) -> Tensor:
        answer = as_float_tensor(self._own(name)(value), name=name)
        if answer.shape[answer.ndim - value.ndim :] != value.shape:
            raise InputError(
                f"{type(self._law).__name__}.{name} must keep the shape of its "
                f"argument, {tuple(value.shape)}, got {tuple(answer.shape)}."
            )
        return answer

    def _cdf(self, value: Tensor) -> Tensor:
        return self._answer("cdf", value)

    def _pit_before(self, value: Tensor) -> PitValues:
        # Whether it has atoms is not known.
        return self._pit(torch.nextafter(value, torch.full_like(value, -torch.inf)))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._answer("log_prob", value)

    def _quantile(self, level: Tensor) -> Tensor:
        return self._answer("quantile", level)

    def _crps(self, value: Tensor) -> Tensor:
        return self._answer("crps", value)
