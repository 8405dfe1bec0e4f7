"""Corrections of predicted laws, learned on held-out rows.

To add one: one file here, one line in ``_LINES``.
"""

from typing import TYPE_CHECKING

from calibrant._table import Table

if TYPE_CHECKING:  # the names of the parts must not cost an import of torch
    from collections.abc import Callable

    from calibrant.contracts import Recalibrator

__all__ = ["RECALIBRATORS", "from_json"]

_LINES = {
    "isotonic": "isotonic:IsotonicRecalibrator",
    "empirical": "empirical:EmpiricalRecalibrator",
    "smooth": "smooth:SmoothRecalibrator",
    "beta": "beta:BetaRecalibrator",
    "scale": "scale:ScaleRecalibrator",
    "conformal_interval": "conformal_interval:ConformalInterval",
}

RECALIBRATORS: "Table[Callable[..., Recalibrator]]" = Table(
    "recalibrator", {name: f"{__name__}.{path}" for name, path in _LINES.items()}
)


def from_json(text: str) -> "Recalibrator":
    """Read a recalibrator that ``to_json`` has written; it predicts bit by bit alike.

    Parameters
    ----------
    text
        What ``to_json()`` gave.

    Returns
    -------
    Recalibrator
        Of the class and with the options that wrote it.

    Examples
    --------
    >>> fitted = RECALIBRATORS["empirical"]().fit_pit([0.2, 0.5, 0.6])
    >>> from_json(fitted.to_json()).apply([0.5]).tolist()
    [0.5]
    """
    from calibrant.recalibration._json import read_json

    part: Recalibrator = read_json(text)
    return part
