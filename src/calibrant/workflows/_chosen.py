"""What a fit is told: the regressor's settings and the share of rows to set aside."""

from collections.abc import Mapping
from typing import Any

from calibrant._checks import InputError
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.workflows._given import as_numbers

__all__ = ["chosen_regressor", "share_aside"]


def share_aside(test: float | None, test_table: object) -> float:
    """Share of the rows to set aside; a table to measure on leaves none."""
    if test_table is None:
        return 0.2 if test is None else as_numbers(test, what="test")[0]
    if test is not None:
        raise InputError(
            "rows to measure on are set aside, or come from a table of their own, got "
            "both. Leave one of them out."
        )
    return 0.0


def chosen_regressor(settings: Mapping[str, Any], seed: int) -> CalibratedRegressor:
    """Make the regressor, and refuse settings before the table is read."""
    default = CalibratedRegressor().settings()
    unknown = sorted(set(settings) - set(default))
    if unknown:
        raise InputError(
            f"fit_table has no settings {', '.join(unknown)}. Besides its own it takes "
            f"the parameters of CalibratedRegressor: {', '.join(default)}."
        )
    if "random_state" in settings:
        raise InputError("random_state is set by the seed, for the rows set aside too.")
    if settings.get("distributed"):
        raise InputError(
            "distributed training is for CalibratedRegressor in a script of your own: "
            "here all processes would write to one folder."
        )
    for name, value in settings.items():
        _check_type(name, value, default[name])
    regressor = CalibratedRegressor(random_state=seed).set_params(**settings)
    regressor.check_settings()
    return regressor


def _check_type(name: str, value: object, default: object) -> None:
    """Refuse a text where a number belongs; the rest is looked at by its users."""
    takes_number = isinstance(default, int | float) and not isinstance(default, bool)
    if takes_number and isinstance(value, str) and value != "auto":
        raise InputError(f"{name} must be a number, got {value!r:.60}.")
