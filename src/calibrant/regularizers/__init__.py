"""Divergences of PIT values from the uniform distribution, and their modules.

To add one: a function in ``divergences.py``, and one line in ``STRENGTHS``.
Public names stand in ``__init__.pyi`` and load on first use.
"""

import lazy_loader

from calibrant.registry import Table

#: The strength that each entry of the table is made for.
STRENGTHS: dict[str, float] = {
    "cumulative_kl": 20.0,
    "spacing_entropy": 1.0,
    "cramer_von_mises": 40.0,
    "kernel_calibration": 40.0,
    "quantile_distance": 6.0,
    "beta_kernel_entropy": 3.0,
    "pit_entropy": 1.5,
}

REGULARIZERS = Table(
    "regularizer", {name: f"{__name__}.divergences:{name}" for name in STRENGTHS}
)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
