"""Corrections of predictive distributions, learned on held-out rows.

To add one: a class here, a line in ``RECALIBRATORS``. Public names stand in
``__init__.pyi`` and load on first use.
"""

from typing import TYPE_CHECKING

import lazy_loader

from calibrant.registry import Table, part_from_json

if TYPE_CHECKING:  # the names of the parts must not cost an import of torch
    from calibrant.protocols import Recalibrator

RECALIBRATORS = Table(
    "recalibrator",
    {
        "isotonic": f"{__name__}.maps:IsotonicRecalibrator",
        "empirical": f"{__name__}.maps:EmpiricalRecalibrator",
        "smooth": f"{__name__}.maps:SmoothRecalibrator",
        "beta": f"{__name__}.maps:BetaRecalibrator",
        "scale": f"{__name__}.scale:ScaleRecalibrator",
        "conformal_interval": f"{__name__}.conformal:ConformalInterval",
    },
)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def from_json(text: str) -> "Recalibrator":
    """Read a recalibrator from what ``to_json`` wrote; it predicts bit by bit alike.

    Examples
    --------
    >>> fitted = RECALIBRATORS["empirical"]().fit_pit([0.2, 0.5, 0.6])
    >>> from_json(fitted.to_json()).apply([0.5]).tolist()
    [0.5]
    """
    part: Recalibrator = part_from_json(RECALIBRATORS, text)
    return part
