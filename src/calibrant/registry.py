"""Tables of named parts, which load a part on first use, and parts as JSON."""

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from calibrant.errors import InputError

if TYPE_CHECKING:  # the names of the parts must not cost an import of torch
    from calibrant.protocols import Sorter, TargetTransform

__all__ = [
    "SORTERS",
    "TRANSFORMS",
    "StoredPart",
    "Table",
    "load",
    "part_from_json",
    "read_json",
]

Part = TypeVar("Part")
_VERSION = 1


def load(path: str) -> object:
    """Import ``"package.module:name"`` and return what it names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


class Table(MutableMapping[str, Part]):
    """A mapping from names to parts; a part's module is imported on first use.

    The names are known without importing torch, so that a command line can offer them
    at once. Your own parts go in as they are.

    Parameters
    ----------
    kind
        What one part is called in an error text.
    paths
        Name to ``"package.module:attribute"``.

    Examples
    --------
    >>> table = Table("function", {"root": "math:sqrt"})
    >>> table["root"](9.0)
    3.0
    >>> table["square"] = lambda value: value**2
    >>> list(table)
    ['root', 'square']
    """

    def __init__(self, kind: str, paths: Mapping[str, str]) -> None:
        self.kind = kind
        self._paths: dict[str, str | None] = dict(paths)
        self._parts: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        if name not in self._parts:
            path = self._paths.get(name)
            if path is None:
                raise KeyError(self._unknown(name))
            self._parts[name] = cast("Part", load(path))
        return self._parts[name]

    def __setitem__(self, name: str, part: Part) -> None:
        self._paths[name] = None
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._paths[name]
        self._parts.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __repr__(self) -> str:
        return f"Table of {self.kind}s: {', '.join(self)}"

    def _unknown(self, name: str) -> str:
        near = get_close_matches(str(name), list(self), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"no {self.kind} is called {name!r}; there are {', '.join(self)}.{hint}"


class StoredPart:
    """A part of a table that is written as JSON and read by :func:`part_from_json`."""

    #: The kind of the table, the name in it, and what ``fit`` must be called with.
    kind: ClassVar[str]
    name: ClassVar[str]
    _fit_on: ClassVar[str]
    _learned: Any = None

    @property
    def _fitted(self) -> Any:  # noqa: ANN401  (each class learns something else)
        """What ``fit`` has learned."""
        if self._learned is None:
            raise InputError(
                f"the {self.name} {self.kind} must be fitted first, and it is not. "
                f"Call fit() with {self._fit_on}."
            )
        return self._learned

    def _options(self) -> dict[str, object]:
        """Keyword arguments of the constructor."""
        return {}

    def _state(self) -> dict[str, object]:
        """Everything that was learned, as numbers and lists."""
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`_state` gave, checked: it comes from a file."""

    def to_json(self) -> str:
        """Write options and what was learned as text, to be read by ``from_json``."""
        content = {
            "format": f"calibrant {self.kind}",
            "version": _VERSION,
            "name": self.name,
            "options": self._options(),
            "state": self._state(),
        }
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_state(cls, options: Mapping[str, Any], state: Mapping[str, Any]) -> Self:
        """Make a fitted part from the options and the state of ``to_json``."""
        part = cls(**options)
        part._restore(state)
        return part

    def __repr__(self) -> str:
        options = ", ".join(
            f"{key}={value!r}" for key, value in self._options().items()
        )
        return f"{type(self).__name__}({options})"


def read_json(text: str) -> Any:  # noqa: ANN401
    """Read JSON; a ``ValueError`` for NaN and infinity, which are not part of it."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not a number of JSON")

    return json.loads(text, parse_constant=refuse)


def part_from_json(table: Table[Any], text: str) -> Any:  # noqa: ANN401
    """Make the part that ``to_json`` wrote, or say what is wrong with the text."""
    kind, source = table.kind, f"what a {table.kind}'s to_json() gave"
    try:
        content = read_json(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"text must be {source}, complete; it cannot be read as JSON: {error}."
        ) from error
    if not isinstance(content, dict) or content.get("format") != f"calibrant {kind}":
        found = f"JSON of a {type(content).__name__}"
        if isinstance(content, dict):
            found = f"an object whose format is {content.get('format')!r}"
        raise InputError(
            f"text must be {source}, with format 'calibrant {kind}'; got {found}."
        )
    version, name = content.get("version"), content.get("name")
    if version != _VERSION:
        raise InputError(
            f"the text has version {version!r} of the format, this calibrant reads "
            f"{_VERSION}. Install the calibrant that wrote it, or a newer one."
        )
    if not isinstance(name, str) or name not in table:
        raise InputError(
            f"the text holds a {kind} called {name!r}, there are {', '.join(table)}. "
            f"Put your own into {kind.upper()}S before."
        )
    part = table[name]
    try:
        return part.from_state(content["options"], content["state"])
    except Exception as error:  # numbers of a wrong type or size raise many kinds
        reason = str(error).rstrip(".")
        raise InputError(
            f"the text for {name!r} is damaged: {reason}. Write it again by to_json()."
        ) from error


SORTERS: "Table[Sorter]" = Table(
    "sorter",
    {
        name: f"calibrant.sorting:{name}_sort"
        for name in ("hard", "neural", "soft", "network")
    },
)

TRANSFORMS: "Table[Callable[..., TargetTransform]]" = Table(
    "transform",
    {
        "identity": "calibrant.transforms:IdentityTransform",
        "log": "calibrant.transforms:LogTransform",
        "box_cox": "calibrant.transforms:BoxCoxTransform",
        "yeo_johnson": "calibrant.transforms:YeoJohnsonTransform",
        "logit": "calibrant.transforms:LogitTransform",
    },
)
