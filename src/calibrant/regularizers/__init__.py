"""Distances of PIT values from the uniform law, ``(..., n) -> (...)``.

To add one: one file here, one line in ``_LINES``.
"""

from typing import TYPE_CHECKING

from calibrant.registry import Table

if TYPE_CHECKING:  # the names of the parts must not cost an import of torch
    from calibrant.contracts import Regularizer

__all__ = ["REGULARIZERS", "STRENGTHS"]

# name: (where it lives, default strength)
_LINES = {
    "cumulative_kl": ("cumulative_kl:cumulative_kl", 20.0),
    "spacing_entropy": ("spacing_entropy:spacing_entropy", 1.0),
    "cramer_von_mises": ("cramer_von_mises:cramer_von_mises", 40.0),
    "kernel_calibration": ("kernel_calibration:kernel_calibration", 40.0),
    "quantile_distance": ("quantile_distance:quantile_distance", 6.0),
    "beta_kernel_entropy": ("beta_kernel_entropy:beta_kernel_entropy", 3.0),
}

REGULARIZERS: "Table[Regularizer]" = Table(
    "regularizer", {name: f"{__name__}.{path}" for name, (path, _) in _LINES.items()}
)

#: The strength that each entry of the table is made for.
STRENGTHS: dict[str, float] = {name: strength for name, (_, strength) in _LINES.items()}
