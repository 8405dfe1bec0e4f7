"""What the recalibrators share that map PIT values."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from calibrant._checks import ArrayLike, as_pit
from calibrant.contracts import PitValues, UnitMap
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.recalibration._held_out import (
    held_out_pit,
    held_out_rows,
    pit_of_rows,
    unfitted,
)
from calibrant.recalibration._json import write_json

__all__ = ["MapRecalibrator", "StoredMap"]


class StoredMap(UnitMap, Protocol):
    """A map that can say what it is made of, as plain lists and numbers."""

    def state(self) -> dict[str, object]:
        """Everything that the map consists of."""
        ...


class MapRecalibrator(ABC):
    """Learns a map of [0, 1]; final classes supply the map.

    A final class stores its options, names itself as in ``RECALIBRATORS`` and
    implements the abstract methods.
    """

    #: The name in ``RECALIBRATORS``.
    name: ClassVar[str]

    _map: StoredMap | None = None

    @abstractmethod
    def _learn(self, pit: PitValues) -> StoredMap:
        """Make the map from checked, sorted float64 PIT values ``(n,)``."""

    @classmethod
    @abstractmethod
    def _restore(cls, state: Mapping[str, Any]) -> StoredMap:
        """Make the map from its state."""

    def _options(self) -> dict[str, object]:
        return {}

    def fit(
        self,
        distribution: Any,  # noqa: ANN401
        y: ArrayLike,
    ) -> Self:
        """Learn from predictions for held-out rows and their targets.

        The PIT value of a target that has a probability of its own (a cap) is a random
        place in the jump of the cdf, with a fixed seed.

        Parameters
        ----------
        distribution
            One law for each row, batch shape ``(n,)``: whatever ``as_distribution``
            takes.
        y
            Targets, shape ``(n,)``.
        """
        law, target = held_out_rows(distribution, y)
        with torch.no_grad():
            return self.fit_pit(pit_of_rows(law, target))

    def fit_pit(self, pit: ArrayLike | PitValues) -> Self:
        """Learn from PIT values of held-out rows, shape ``(n,)``, in [0, 1]."""
        self._map = self._learn(held_out_pit(pit))
        return self

    def transform(self, distribution: Any) -> Recalibrated:  # noqa: ANN401
        """Correct predictions for other rows, of any batch shape."""
        return Recalibrated(as_distribution(distribution), self.unit_map)

    def apply(self, levels: ArrayLike) -> Tensor:
        """Map plain levels in [0, 1], shape ``(..., n)``: for plots and checks."""
        pit = as_pit(levels, name="levels", single_rows=True)
        mapped = self.unit_map.forward(pit).cdf
        # In log odds a level of 0 stands for anything below 1e-308; here it is 0.
        mapped = torch.where(pit.cdf > 0, mapped, 0.0)
        return torch.where(pit.cdf < 1, mapped, 1.0)

    def invert(self, levels: ArrayLike) -> Tensor:
        """Find the smallest levels that :meth:`apply` maps to these, ``(..., n)``."""
        wanted = as_pit(levels, name="levels", single_rows=True)
        return self.unit_map.inverse(wanted).cdf

    @property
    def unit_map(self) -> StoredMap:
        """The map that was learned."""
        if self._map is None:
            raise unfitted(self.name)
        return self._map

    def to_json(self) -> str:
        """Write options and map as text, to be read by ``from_json``."""
        state = self.unit_map.state()
        return write_json(self.name, options=self._options(), state=state)

    @classmethod
    def from_state(cls, options: Mapping[str, Any], state: Mapping[str, Any]) -> Self:
        """Make a fitted recalibrator from what ``to_json`` wrote."""
        restored = cls(**options)
        restored._map = cls._restore(state)
        return restored

    def __repr__(self) -> str:
        settings = ", ".join(
            f"{key}={value!r}" for key, value in self._options().items()
        )
        state = "unfitted" if self._map is None else "fitted"
        return f"{type(self).__name__}({settings}) [{state}]"
