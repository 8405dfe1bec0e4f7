"""Tables of parts by name, which load a part only when it is asked for."""

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from difflib import get_close_matches
from typing import TypeVar, cast

__all__ = ["Table", "load"]

Part = TypeVar("Part")


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
