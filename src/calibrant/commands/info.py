"""calibrant info: what a model's folder holds."""

from typing import Any

from calibrant.commands._console import Console, one_line_errors
from calibrant.commands._options import JsonOption, Model, QuietOption, VerboseOption
from calibrant.errors import InputError

__all__ = ["info"]


@one_line_errors("")
def info(
    model: Model,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what a model predicts, from which columns, how it was made and how it did.

    Example: calibrant info model/
    """
    from calibrant.commands.table_model import (
        KIND,
        described_table,
        how_it_did,
        settings_of,
    )
    from calibrant.storage import read_description

    console = Console(json, quiet, verbose)
    parts: dict[str, Any] = read_description(model, kind=KIND)
    try:
        encoder, target, about, trend = described_table(parts)
        regressor = parts.get("regressor")
        strength = regressor.get("strength") if isinstance(regressor, dict) else None
        made, did = settings_of(about, strength, trend), how_it_did(about)
    except InputError as error:
        raise InputError(f"{model}: {error}") from None
    console.json(
        {
            "target": target,
            "columns": [vars(line) for line in encoder.lines],
            "features": list(encoder.feature_names),
            "about": about,
        }
    )
    console.say(
        f"Predicts {target!r:.60} from {len(encoder.needed)} columns "
        f"({len(encoder.feature_names)} features)."
    )
    console.columns(encoder.lines)
    for name, text in made.items():
        console.say(f"{name}: {text}")
    console.say(did)
