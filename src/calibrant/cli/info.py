"""calibrant info: what a model's folder holds."""

from typing import Any

from calibrant.cli._app import one_line_errors
from calibrant.cli._options import JsonOption, Model, QuietOption, VerboseOption
from calibrant.cli._voice import Voice

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
    from calibrant.errors import InputError
    from calibrant.storage import read_description
    from calibrant.workflows.table_model import (
        KIND,
        described_table,
        how_it_did,
        settings_of,
    )

    voice = Voice(json, quiet, verbose)
    parts: dict[str, Any] = read_description(model, kind=KIND)
    try:
        encoder, target, about, trend = described_table(parts)
        regressor = parts.get("regressor")
        strength = regressor.get("strength") if isinstance(regressor, dict) else None
        made, did = settings_of(about, strength, trend), how_it_did(about)
    except InputError as error:
        raise InputError(f"{model}: {error}") from None
    voice.json(
        {
            "target": target,
            "columns": [vars(line) for line in encoder.lines],
            "features": list(encoder.feature_names),
            "about": about,
        }
    )
    voice.say(
        f"Predicts {target!r:.60} from {len(encoder.needed)} columns "
        f"({len(encoder.feature_names)} features)."
    )
    voice.columns(encoder.lines)
    for name, text in made.items():
        voice.say(f"{name}: {text}")
    voice.say(did)
