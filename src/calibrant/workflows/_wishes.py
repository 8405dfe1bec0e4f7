"""Which numbers each predicted row gets."""

from dataclasses import dataclass
from typing import Any

from calibrant._checks import InputError
from calibrant.distributions.base import AbstractDistribution

__all__ = ["Wishes"]

# Of a level; farther out a law is all assumption.
_OUTERMOST = 1e-6


@dataclass(frozen=True)
class Wishes:
    """Which numbers each row gets.

    Attributes
    ----------
    coverages
        Of central intervals.
    quantiles
        Levels.
    keep
        Columns of the input to write as well.
    """

    coverages: tuple[float, ...]
    quantiles: tuple[float, ...]
    keep: tuple[str, ...]

    def __post_init__(self) -> None:
        for name, values in (
            ("coverage", self.coverages),
            ("quantiles", self.quantiles),
        ):
            for value in values:
                if not 0 < value < 1:
                    percent = f" Write {value / 100:g} for {value:g} %."
                    hint = percent if 1 <= value < 100 else ""
                    raise InputError(
                        f"{name} must lie strictly between 0 and 1, got {value:g}."
                        f"{hint}"
                    )
        for level in self.levels:
            if not _OUTERMOST <= level <= 1 - _OUTERMOST:
                raise InputError(
                    f"quantiles farther out than {_OUTERMOST:g} are not predicted, got "
                    f"a level of {level:.12g}: no table has taught them."
                )

    @property
    def levels(self) -> list[float]:
        """All levels at which quantiles are needed, ascending."""
        ends = [
            level
            for coverage in self.coverages
            for level in (0.5 - coverage / 2, 0.5 + coverage / 2)
        ]
        return sorted({round(level, 12) for level in (*ends, *self.quantiles)})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are made."""
        return ("mean", "std", *self._places())

    def _places(self) -> dict[str, float]:
        """Column to the level of its quantile."""
        places = {}
        for coverage in self.coverages:
            percent = f"{100 * coverage:.10g}"
            places[f"lower_{percent}"] = 0.5 - coverage / 2
            places[f"upper_{percent}"] = 0.5 + coverage / 2
        return places | {f"q{level:.10g}": level for level in self.quantiles}

    def numbers(self, law: AbstractDistribution) -> dict[str, Any]:
        """Return the columns for a chunk of rows, each of shape ``(n,)``."""
        columns = {"mean": law.mean.numpy(), "std": law.stddev.numpy()}
        if self.levels:
            found = law.quantiles(self.levels).numpy()
            index = {level: place for place, level in enumerate(self.levels)}
            for name, level in self._places().items():
                columns[name] = found[:, index[round(level, 12)]]
        return columns
