"""The plan that a command asks for."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibrant._checks import InputError
from calibrant.benchmark.plan import Plan, Study, read_plan
from calibrant.benchmark.profiles import profile

__all__ = ["choose_plan"]


def choose_plan(
    name: str | None,
    path: Path | None,
    options: Mapping[str, Any],
    *,
    only: Collection[str] = (),
    seed: int | None = None,
) -> Plan:
    """Return the plan of a file, else of options, else of a profile.

    Parameters
    ----------
    name
        Of the profile; None for quick, unless a file or options are given.
    path
        Of a plan in TOML, or None.
    options
        Fields of a ``Study``, lists or single values; empty for none.
    only
        Data sets to keep; empty for all.
    seed
        Of the plan; None for the file's own, or 0.

    Examples
    --------
    >>> choose_plan("quick", None, {}, only=["yacht"]).studies[0].data
    ('yacht',)
    """
    given = [
        *([] if name is None else [f"the profile {name}"]),
        *([] if path is None else [str(path)]),
        *([", ".join(options)] if options else []),
    ]
    if len(given) > 1:
        raise InputError(
            "a plan is given by a profile, a file, or options of its own, got "
            f"{' and '.join(given)}. `--print-plan` prints a profile to be changed."
        )
    if path is not None:
        plan = read_plan(path)
    elif options:
        plan = Plan(studies=(_study(options),))
    else:
        plan = profile(name or "quick")
    if only:
        plan = _restricted(plan, only)
    return plan if seed is None else replace(plan, seed=seed)


def _study(options: Mapping[str, Any]) -> Study:
    if "data" not in options:
        raise InputError(
            f"{', '.join(options)} make a plan of your own, which must name its data: "
            "add --data."
        )
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
    }
    if fields.get("split") == "fixed":
        fields.setdefault("folds", 1)
    return Study(**fields)


def _restricted(plan: Plan, only: Collection[str]) -> Plan:
    """Keep some of the data sets."""
    known = {name for study in plan.studies for name in study.data}
    if unknown := sorted(set(only) - known):
        raise InputError(
            f"only must name data sets of the plan ({', '.join(sorted(known))}), got "
            f"{', '.join(unknown)}."
        )
    kept = (
        replace(study, data=data)
        for study in plan.studies
        if (data := tuple(name for name in study.data if name in only))
    )
    return replace(plan, studies=tuple(kept))
