"""What the user says about columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.tables._errors import input_error, listed, shown
from calibrant.tables._words import close_to

__all__ = ["Roles", "check_roles"]


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Columns with a part of their own.

    Parameters
    ----------
    drop
        Columns that are not used.
    categorical
        Columns whose values are names, also if they are written as numbers.
    time
        The column that orders the rows; it is a feature too unless it is dropped.
    group
        The column that says which rows belong together; it is not used itself.
    day_first
        Whether 3/4/2020 is in April; None decides by what fits all rows.

    Examples
    --------
    >>> Roles(drop=("id",), categorical=("zip",)).categorical
    ('zip',)
    """

    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    time: str | None = None
    group: str | None = None
    day_first: bool | None = None

    def __post_init__(self) -> None:
        for option in ("drop", "categorical"):
            names = getattr(self, option)
            names = (names,) if isinstance(names, str) else tuple(names)
            object.__setattr__(self, option, names)


def check_roles(
    roles: Roles, *, columns: Sequence[str], target: str, name: str
) -> None:
    """Refuse names that are no columns of the file, and parts that clash."""
    single = {"time": roles.time, "group": roles.group}
    named = {
        "target": (target,),
        "drop": roles.drop,
        "categorical": roles.categorical,
        **{role: () if each is None else (each,) for role, each in single.items()},
    }
    known = set(columns)
    for role, names in named.items():
        for each in names:
            if each not in known:
                raise input_error(
                    f"{name} has no column {shown(each)} ({role})"
                    f"{close_to(each, columns)}; its columns are {listed(columns)}."
                )
            if role != "target" and each == target:
                raise input_error(
                    f"{shown(target)} is the target and cannot be named for {role}, "
                    "too. Name another column."
                )
    both = sorted(set(roles.drop) & {*roles.categorical, roles.group})
    if both:
        raise input_error(
            f"a column is either dropped or used, got both for {listed(both)}. Leave "
            "one out."
        )
