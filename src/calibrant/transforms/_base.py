"""What the transforms share: checked targets, text, a name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from torch import Tensor

from calibrant._checks import ArrayLike, InputError, as_float_tensor, as_target
from calibrant.transforms._json import write_json

__all__ = ["AbstractTransform", "unfitted"]


class AbstractTransform(ABC):
    """An increasing map of targets onto the line; final classes supply the formulas.

    A final class names itself as in ``TRANSFORMS`` and implements the abstract methods
    on float64 tensors that lie inside the support.
    """

    #: The name in ``TRANSFORMS``.
    name: ClassVar[str]
    #: What to do about targets outside of the support.
    _remedy: ClassVar[str] = ""

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Open interval of the targets that have an image."""

    @abstractmethod
    def _forward(self, y: Tensor) -> Tensor: ...

    @abstractmethod
    def _inverse(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _log_derivative(self, y: Tensor) -> Tensor: ...

    def _learn(self, y: Tensor) -> None:  # noqa: B027  (most learn nothing)
        """Learn from checked float64 targets ``(n,)`` on the CPU."""

    def _options(self) -> dict[str, object]:
        return {}

    def _state(self) -> dict[str, object]:
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take back what :meth:`_state` gave."""

    def fit(self, y: ArrayLike) -> Self:
        """Learn the parameters, if there are any, from targets.

        Parameters
        ----------
        y
            Targets, shape ``(n,)``, all inside the support.
        """
        target = self._inside(y)
        if target.ndim != 1 or target.numel() == 0:
            raise InputError(
                f"y must have shape (n,) with n >= 1, got {tuple(target.shape)}. "
                "Use squeeze(-1) on (n, 1)."
            )
        self._learn(target.detach().cpu())
        return self

    def forward(self, y: ArrayLike) -> Tensor:
        """Map targets of any shape: z = g(y), in float64."""
        return self._forward(self._inside(y))

    def inverse(self, z: ArrayLike) -> Tensor:
        """Map back, any shape, in float64; the ends of the support at +-inf."""
        return self._inverse(as_float_tensor(z, name="z").double())

    def log_derivative(self, y: ArrayLike) -> Tensor:
        """Logarithm of the derivative of g at targets of any shape, in float64."""
        return self._log_derivative(self._inside(y))

    def _inside(self, y: ArrayLike) -> Tensor:
        """Return finite float64 targets, refused if one is outside of the support."""
        target = as_target(y).double()
        low, high = self.support
        for outside, rule in ((target <= low, f"<= {low:g}"), (target >= high, "")):
            if outside.any():
                rule = rule or f">= {high:g}"
                raise InputError(
                    f"y must lie strictly between {low:g} and {high:g} for the "
                    f"transform {self.name!r}: {int(outside.sum())} of "
                    f"{outside.numel()} targets are {rule}. {self._remedy}"
                )
        return target

    def to_json(self) -> str:
        """Write options and what was learned as text, to be read by ``from_json``."""
        return write_json(self.name, options=self._options(), state=self._state())

    @classmethod
    def from_state(cls, options: Mapping[str, Any], state: Mapping[str, Any]) -> Self:
        """Make a fitted transform from what ``to_json`` wrote."""
        restored = cls(**options)
        restored._restore(state)
        return restored

    def __repr__(self) -> str:
        settings = ", ".join(
            f"{key}={value!r}" for key, value in self._options().items()
        )
        return f"{type(self).__name__}({settings})"


def unfitted(name: str) -> InputError:
    """Say that a transform has learned nothing yet."""
    return InputError(
        f"the transform {name!r} must be fitted before it is used. Call fit(y) with "
        "the training targets, shape (n,)."
    )
