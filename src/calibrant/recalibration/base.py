"""What recalibrators share: held-out rows, stretched predictions, the fit of a map."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from calibrant.distributions import (
    DISTRIBUTIONS,
    AbstractDistribution,
    Censored,
    Mixture,
    Recalibrated,
    StudentT,
    Transformed,
    Truncated,
    as_distribution,
    rescaled,
)
from calibrant.distributions.adapters import TorchDistribution
from calibrant.protocols import PitValues, UnitMap
from calibrant.registry import StoredPart
from calibrant.validation import (
    ArrayLike,
    InputError,
    UnsupportedError,
    as_pit,
    as_target,
    pit_from_cdf,
)

#: Whatever ``as_distribution`` takes.
Prediction = Any
#: Of random places in a jump; a seed that made the data would repeat its numbers.
_SEED = 200212860
#: Tails of PIT values that float64 tells from 0 only on one side, and that a map
#: learns from without loss.
_LOST, _SAFE = 1e-15, 1e-8
#: Rows that may lie beyond: one in so many. Outliers must not widen all others.
_OUTLIERS = 50
#: Factors by which predictions are widened.
_SPREADS = [2.0**power for power in range(1, 11)]
#: Distributions that are widened inside of what they are made of.
_DERIVED = (Recalibrated, Transformed, Truncated, Censored)


class BaseRecalibrator(StoredPart):
    """What the error texts of all recalibrators say."""

    kind: ClassVar[str] = "recalibrator"
    _fit_on: ClassVar[str] = (
        "predictions for rows that the model was not trained on, and their targets"
    )


class MapRecalibrator(BaseRecalibrator, ABC):
    """Learns a map of [0, 1]; final classes supply the map.

    PIT values next to 0 and 1 cannot be told apart, so no map could correct a model
    that is several times over-confident. Its predictions are then widened first, by
    :attr:`spread`, and the map is learned on top.
    """

    #: The map, which checks what comes from a file, and the arguments that make it.
    _map_type: ClassVar[Any]
    _map_state: ClassVar[tuple[str, ...]]
    _spread: float = 1.0

    @abstractmethod
    def _learn(self, pit: PitValues) -> UnitMap:
        """Make the map from checked, sorted float64 PIT values ``(n,)``."""

    def fit(
        self,
        distribution: Prediction,
        y: ArrayLike,
        *,
        pit: Callable[[AbstractDistribution], ArrayLike | PitValues] | None = None,
    ) -> Self:
        """Learn from predictions for held-out rows and their targets ``(n,)``.

        At an atom the PIT value is a random place in the jump of the cdf, with a fixed
        seed. ``pit`` computes PIT values from a distribution instead.
        """
        predicted, target = held_out_rows(distribution, y)
        pit_of = pit or (lambda given: pit_of_rows(given, target))
        with torch.no_grad():
            spread, values = _resolved(predicted, pit_of)
        self._learned, self._spread = self._learn(values), spread
        return self

    def fit_pit(self, pit: ArrayLike | PitValues, *, spread: float = 1.0) -> Self:
        """Learn from PIT values of held-out rows, shape ``(n,)``, in [0, 1].

        Prefer :meth:`fit`: without the predictions these cannot be widened.
        ``spread`` says by how much they were.
        """
        self._learned, self._spread = self._learn(_held_out_pit(pit)), spread
        return self

    def transform(self, distribution: Prediction) -> Recalibrated:
        """Correct predictions for other rows, of any batch shape."""
        given = as_distribution(distribution)
        return Recalibrated(widened(given, self.spread), self.unit_map)

    @property
    def spread(self) -> float:
        """Factor that widens predictions before the map; 1 for most models."""
        return self._spread

    @property
    def unit_map(self) -> UnitMap:
        """The map that was learned."""
        learned: UnitMap = self._fitted
        return learned

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

    def _state(self) -> dict[str, object]:
        parts = {name: getattr(self._fitted, name) for name in self._map_state}
        if self._spread != 1:
            parts["spread"] = self._spread
        return {name: _float64(part).tolist() for name, part in parts.items()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        parts = {name: _float64(state[name]) for name in self._map_state}
        self._learned = self._map_type(**parts)
        self._spread = float(state.get("spread", 1))
        if not 0 < self._spread <= _SPREADS[-1]:
            raise InputError(f"its spread must be above 0 and at most {_SPREADS[-1]:g}")

    def __repr__(self) -> str:
        state = "unfitted" if self._learned is None else "fitted"
        return f"{super().__repr__()} [{state}]"


def _float64(values: Any) -> Tensor:  # noqa: ANN401  (perhaps from a file)
    return torch.as_tensor(values, dtype=torch.float64)


def _resolved(
    predicted: AbstractDistribution,
    pit_of: Callable[[AbstractDistribution], ArrayLike | PitValues],
) -> tuple[float, PitValues]:
    """Find the least spread at which PIT values are resolved, and those values.

    Ranks of location-scale families are the same for each, so their guarantee stays.
    """
    values = _held_out_pit(pit_of(predicted))
    most = max(1, len(values.cdf) // _OUTLIERS)
    best, fewest = (1.0, values), _beyond(values, _SAFE)
    if fewest <= most or not _beyond(values, _LOST):
        return best
    # An object with nothing but a cdf cannot be widened.
    with suppress(UnsupportedError):
        for spread in _SPREADS:
            values = _held_out_pit(pit_of(widened(predicted, spread)))
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


def held_out_rows(
    distribution: Prediction, y: ArrayLike
) -> tuple[AbstractDistribution, Tensor]:
    """Return the distribution and a finite target for each of its rows, ``(n,)``."""
    predicted = as_distribution(distribution)
    target = as_target(y, like=predicted._like)
    shape = tuple(predicted.batch_shape)
    if len(shape) != 1 or target.shape != shape:
        raise InputError(
            "a recalibrator needs one distribution and one target for each held-out "
            f"row; their shapes are {shape} and {tuple(target.shape)}. Use squeeze(-1) "
            "on (n, 1); the members of an ensemble become one by GaussianMixture."
        )
    return predicted, target.detach()


def pit_of_rows(predicted: AbstractDistribution, target: Tensor) -> PitValues:
    """PIT values ``(n,)``, at atoms a random place in the jump of the cdf."""
    pit, before = predicted.pit(target), predicted.cdf_before(target)
    jump = predicted.cdf(target) - before
    if not jump.any():
        return pit
    generator = torch.Generator(target.device).manual_seed(_SEED)
    share = torch.rand(
        jump.shape, generator=generator, dtype=jump.dtype, device=jump.device
    )
    drawn = pit_from_cdf((before + share * jump).clamp(0, 1))
    return drawn.where(jump > 0, pit)


def _held_out_pit(pit: ArrayLike | PitValues) -> PitValues:
    """Return PIT values ``(n,)`` in ascending order, float64, on the CPU."""
    given = as_pit(pit).map(lambda part: part.detach().cpu())
    if given.cdf.ndim != 1:
        raise InputError(
            f"pit must have shape (n,), got {tuple(given.cdf.shape)}. Flatten it if "
            "all of its rows are equally new to the model."
        )
    as_pit(given.cdf)  # PIT values with both tails have not been checked yet
    values = PitValues(
        given.cdf.double(),
        given.survival.double(),
        _resolved_log(given.cdf, given.log_cdf),
        _resolved_log(given.survival, given.log_survival),
    )
    order = values.key.argsort(stable=True)
    return values.map(lambda part: part[order])


def _resolved_log(tail: Tensor, log_tail: Tensor) -> Tensor:
    """Logarithms in float64; a plain 0 counts as half of the smallest other value."""
    stand_in = torch.tensor(torch.finfo(tail.dtype).tiny, dtype=tail.dtype).log()
    plain = (tail <= 0) & (log_tail == stand_in)
    if not (plain.any() and (tail > 0).any()):
        return log_tail.double()
    smallest = tail[tail > 0].min().double()
    return torch.where(plain, (smallest / 2).log(), log_tail.double())


def center_of(given: AbstractDistribution) -> Tensor:
    """Mean of each row before caps, or the median of Student's t or without a mean."""
    if isinstance(given, Censored):
        return center_of(given.base)
    try:
        center = given.location if isinstance(given, StudentT) else given.mean
    except UnsupportedError:
        center = given.quantile(0.5)
    if not center.isfinite().all():
        raise InputError(
            "a distribution is stretched around its center, which must be finite "
            "(a diverged model)."
        )
    return center


def stretched(
    given: AbstractDistribution, factor: float, center: Tensor | None = None
) -> AbstractDistribution:
    r"""Distribution of :math:`m + k (Y - m)`, with :math:`m` the center of :math:`Y`.

    The family stays. What is recorded at a bound stays there.
    """
    center = center_of(given) if center is None else center
    if isinstance(given, Censored):
        return Censored(stretched(given.base, factor, center), given.low, given.high)
    return rescaled(rescaled(given, -center, 1.0), center, factor)


def widened(given: AbstractDistribution, factor: float) -> AbstractDistribution:
    """Stretch a distribution inside of its bounds and transform: its support stays."""
    if factor == 1:
        return given
    if isinstance(given, Mixture):
        if any(isinstance(part, _DERIVED) for part in given.components):
            parts = [widened(part, factor) for part in given.components]
            return Mixture(parts, given.weights)
    elif isinstance(given, _DERIVED):
        kind: Any = type(given)
        rest = (getattr(given, name) for name in given._parameters[1:])
        wide: AbstractDistribution = kind(widened(given.base, factor), *rest)
        return wide
    wider = stretched(given, factor)
    if type(given) in DISTRIBUTIONS.values():
        return wider
    low, high = given.quantile(0.0), given.quantile(1.0)
    if isinstance(given, TorchDistribution):  # its quantile at 0 is some small number
        low, high = given._bounds()
    bounded = bool((low.isfinite() | high.isfinite()).any())
    return Truncated(wider, low, high) if bounded else wider
