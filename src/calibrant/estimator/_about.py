"""What the folder of a table's model says about it in JSON, read without torch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from calibrant.errors import InputError
from calibrant.tables.encoder import TableEncoder

__all__ = ["KIND", "described_table", "how_it_did", "settings_of"]

#: Of the folder.
KIND = "TableModel"


def described_table(
    parts: Mapping[str, Any],
) -> tuple[TableEncoder, str, dict[str, Any]]:
    """Return the columns, the target and what is known about the making of a model."""
    try:
        encoder = TableEncoder.from_dict(parts["encoder"])
        target, about = parts["target"], parts["about"]
    except KeyError as error:
        raise InputError(
            f"the description has no part {error}. Write it again."
        ) from None
    if not isinstance(target, str) or not isinstance(about, dict):
        raise InputError("its target must be a name and its about a mapping.")
    return encoder, target, about


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
            f"Its 90 % intervals held {100 * held['value']:.1f} % of {card['rows']:,} "
            f"{card.get('which', 'unseen rows')}; a perfect model would show "
            f"{100 * held['low']:.0f} to {100 * held['high']:.0f} %."
        )
