"""What the folder of a table's model says about it in JSON, read without torch."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibrant.errors import InputError
from calibrant.tables.encoder import TableEncoder

__all__ = ["KIND", "Trend", "described_table", "how_it_did", "settings_of"]

#: Of the folder.
KIND = "TableModel"


@dataclass(frozen=True)
class Trend:
    """A straight line in one feature, which the regressor does not have to learn.

    Attributes
    ----------
    feature
        Name of the feature: the position in time.
    slope
        Of the target, for each unit of the feature.
    center
        Value of the feature at which the line is 0.
    """

    feature: str
    slope: float
    center: float

    def __str__(self) -> str:
        return f"{self.slope:.4g} for each unit of {self.feature!r:.60}"

    def line(self, values: Any) -> Any:  # noqa: ANN401  (an array, or a number)
        """Height of the line at values of the feature, shape ``(n,)``."""
        return self.slope * (values - self.center)


def described_table(
    parts: Mapping[str, Any],
) -> tuple[TableEncoder, str, dict[str, Any], Trend | None]:
    """Return columns, target, what is known about the making of a model, its trend."""
    try:
        encoder = TableEncoder.from_dict(parts["encoder"])
        target, about = parts["target"], parts["about"]
    except KeyError as error:
        raise InputError(
            f"the description has no part {error}. Write it again."
        ) from None
    if not isinstance(target, str) or not isinstance(about, dict):
        raise InputError("its target must be a name and its about a mapping.")
    # Models that were written before there were trends have no such part.
    return encoder, target, about, _trend(parts.get("trend"), encoder)


def _trend(content: object, encoder: TableEncoder) -> Trend | None:
    if content is None:
        return None
    match content:
        case {"feature": str(feature), "slope": float(slope), "center": float(center)}:
            if feature in encoder.feature_names and math.isfinite(slope + center):
                return Trend(feature, slope, center)
    raise InputError("its trend must be a line in one of its features.")


@contextmanager
def _as_written() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError):
        # Its checksum is right, so somebody else than calibrant has written it.
        raise InputError(
            "what the model says about its making is not as calibrant writes it."
        ) from None


def settings_of(
    about: Mapping[str, Any],
    strength: Any,  # noqa: ANN401  (a number, or else what was forged)
    trend: Trend | None = None,
) -> dict[str, str]:
    """Say what makes a model again, by name."""
    with _as_written():
        versions = about.get("versions", {}).items()
        changed = about.get("changed", {}).items()
        lines = {
            "Command": about.get("command"),
            "Table": about.get("table"),
            "SHA-256 of the table": about.get("sha256"),
            "Rows learned from": f"{about['rows']:,}" if "rows" in about else None,
            "Seed": about.get("seed"),
            "Strength of the regularizer": f"{strength:g}",
            "Settings": ", ".join(f"{n}={v}" for n, v in changed) or "the defaults",
            "Epochs": about.get("epochs"),
            "Line in time": trend,
            "Versions": ", ".join(f"{n} {v}" for n, v in versions),
        }
        return {name: str(text) for name, text in lines.items() if text is not None}


def how_it_did(about: Mapping[str, Any]) -> str:
    """Say how many of the unseen rows its intervals covered."""
    with _as_written():
        card = about.get("scorecard")
        if not card:
            return "It was not measured on unseen rows."
        held = card["measures"]["coverage_90"]
        return (
            f"Its 90 % intervals covered {100 * held['value']:.1f} % of "
            f"{card['rows']:,} {card.get('which', 'unseen rows')}; a perfect model "
            f"would show {100 * held['low']:.1f} to {100 * held['high']:.1f} %."
        )
