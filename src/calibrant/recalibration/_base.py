"""What the recalibrators share that map PIT values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from calibrant._checks import (
    ArrayLike,
    InputError,
    UnsupportedError,
    as_pit,
    check_positive,
)
from calibrant.contracts import PitValues, UnitMap
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.recalibration._held_out import (
    held_out_pit,
    held_out_rows,
    pit_of_rows,
    unfitted,
)
from calibrant.recalibration._json import write_json
from calibrant.recalibration._scaled import widened

__all__ = ["MapRecalibrator", "StoredMap"]

#: Tails of PIT values that float64 tells from 0 only on one side, and that a map
#: learns from without loss.
_LOST, _SAFE = 1e-15, 1e-8
#: Rows that may lie beyond: one in so many. Outliers must not widen all others.
_OUTLIERS = 50
#: Factors by which predictions are widened.
_SPREADS = [2.0**power for power in range(1, 11)]


class StoredMap(UnitMap, Protocol):
    """A map that can say what it is made of, as plain lists and numbers."""

    def state(self) -> dict[str, object]:
        """Everything that the map consists of."""
        ...


class MapRecalibrator(ABC):
    """Learns a map of [0, 1]; final classes supply the map.

    PIT values next to 0 and 1 cannot be told apart, so no map could correct a model
    that is several times over-confident. Its predictions are then widened first, by
    :attr:`spread`, and the map is learned on top.

    A final class stores its options, names itself as in ``RECALIBRATORS`` and
    implements the abstract methods.
    """

    #: The name in ``RECALIBRATORS``.
    name: ClassVar[str]

    _map: StoredMap | None = None
    _spread: float = 1.0

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
        *,
        pit: Callable[[AbstractDistribution], ArrayLike | PitValues] | None = None,
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
        pit
            PIT values of the rows from their distribution, instead of those at ``y``:
            randomized ones of rounded targets.
        """
        law, target = held_out_rows(distribution, y)
        pit_of = pit or (lambda predicted: pit_of_rows(predicted, target))
        with torch.no_grad():
            self._spread, values = _resolved(law, pit_of)
        self._map = self._learn(values)
        return self

    def fit_pit(self, pit: ArrayLike | PitValues, *, spread: float = 1.0) -> Self:
        """Learn from PIT values of held-out rows, shape ``(n,)``, in [0, 1].

        Without the predictions these cannot be widened: values next to 0 and 1 are
        lost. Prefer :meth:`fit`, or widen the predictions by ``spread`` before.
        """
        self._map, self._spread = self._learn(held_out_pit(pit)), spread
        return self

    def transform(self, distribution: Any) -> Recalibrated:  # noqa: ANN401
        """Correct predictions for other rows, of any batch shape."""
        given = as_distribution(distribution)
        return Recalibrated(widened(given, self.spread), self.unit_map)

    @property
    def spread(self) -> float:
        """Factor that widens predictions before the map.

        1 unless PIT values of the held-out rows could not be told from 0 or 1.
        """
        return self._spread

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
        if self._spread != 1:
            state["spread"] = self._spread
        return write_json(self.name, options=self._options(), state=state)

    @classmethod
    def from_state(cls, options: Mapping[str, Any], state: Mapping[str, Any]) -> Self:
        """Make a fitted recalibrator from what ``to_json`` wrote."""
        restored = cls(**options)
        restored._map = cls._restore(state)
        restored._spread = check_positive(float(state.get("spread", 1)), name="spread")
        found = restored.invert([0.05, 0.5, 0.95])
        rises = bool((found.diff() >= 0).all())  # not so of NaN
        if not rises or restored._spread > _SPREADS[-1]:
            raise InputError(
                "its map must rise from 0 to 1, and its spread must be at most "
                f"{_SPREADS[-1]:g}."
            )
        return restored

    def __repr__(self) -> str:
        settings = ", ".join(
            f"{key}={value!r}" for key, value in self._options().items()
        )
        state = "unfitted" if self._map is None else "fitted"
        return f"{type(self).__name__}({settings}) [{state}]"


def _resolved(
    law: AbstractDistribution,
    pit_of: Callable[[AbstractDistribution], ArrayLike | PitValues],
) -> tuple[float, PitValues]:
    """Find the least spread at which PIT values are resolved, and those values.

    A power of 2 that depends on few rows: ranks of location-scale families are the
    same for each of them, so the guarantee of ranks stays.
    """
    values = held_out_pit(pit_of(law))
    most = max(1, len(values.cdf) // _OUTLIERS)
    best = 1.0, values
    fewest = _beyond(values, _SAFE)
    if fewest <= most or not _beyond(values, _LOST):
        return best
    # An object with nothing but a cdf cannot be widened.
    with suppress(UnsupportedError):
        for spread in _SPREADS:
            values = held_out_pit(pit_of(widened(law, spread)))
            count = _beyond(values, _SAFE)
            if count < fewest:  # not where targets lie outside of the support
                best, fewest = (spread, values), count
            if fewest <= most:
                break
    return best


def _beyond(pit: PitValues, tail: float) -> int:
    """Count values with a smaller tail, but not those of exactly 0 on purpose."""
    least = torch.minimum(pit.log_cdf, pit.log_survival)
    return int((least.isfinite() & (least.exp() < tail)).sum())
