"""calibrant info: what a model's folder holds."""

from typing import TYPE_CHECKING

from calibrant.cli._app import one_line_errors, printable
from calibrant.cli._options import JsonOption, Model, QuietOption, VerboseOption
from calibrant.cli._voice import Voice

if TYPE_CHECKING:
    from calibrant.estimator.table_model import TableModel

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
    from calibrant._checks import InputError
    from calibrant.estimator.table_model import TableModel
    from calibrant.workflows._making import settings_of
    from calibrant.workflows.measured import column_lines

    voice = Voice(json, quiet, verbose)
    loaded = TableModel.load(model)
    encoder = loaded.encoder
    try:
        made, did = settings_of(loaded), _how_it_did(loaded)
    except (LookupError, TypeError, ValueError, AttributeError):
        # Its checksum is right, so somebody else than calibrant has written it.
        raise InputError(
            f"{model}: what it says about its making is not as calibrant writes it."
        ) from None
    voice.json(
        {
            "target": loaded.target,
            "columns": [vars(line) for line in column_lines(encoder)],
            "features": list(encoder.feature_names),
            "about": dict(loaded.about),
        }
    )
    voice.say(
        f"Predicts {loaded.target!r:.60} from {len(encoder.needed)} columns "
        f"({len(encoder.feature_names)} features)."
    )
    voice.columns(column_lines(encoder))
    for name, text in made.items():
        voice.say(printable(f"{name}: {text}"))
    voice.say(did)


def _how_it_did(model: "TableModel") -> str:
    card = model.about.get("scorecard")
    if not card:
        return "It was not measured on unseen rows."
    held = card["measures"]["coverage_90"]
    return (
        f"Its 90 % intervals covered {100 * held['value']:.1f} % of {card['rows']:,} "
        f"{card.get('which', 'unseen rows')}; a perfect model would show "
        f"{100 * held['low']:.1f} to {100 * held['high']:.1f} %."
    )
