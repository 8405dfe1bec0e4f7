"""What a benchmark runs: one frozen plan, as Python, TOML or a profile's name."""

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from calibrant._checks import InputError
from calibrant._terminal import escaped
from calibrant.benchmark.records import NO_REGULARIZER, Cell
from calibrant.regularizers import REGULARIZERS, STRENGTHS

__all__ = ["CONDITIONAL", "Plan", "Study", "read_plan"]

#: The paper's regularizer within groups of predicted spread and mean.
CONDITIONAL = "conditional"

_CHOICES = {
    "networks": ("mc_dropout", "deep_ensemble", "default"),
    "recalibrations": ("none", "isotonic", "out_of_fold"),
    "split": ("unshuffled", "shuffled", "fixed"),
}
# The default model brings its own recalibration, the paper's models theirs.
_OWN_RECALIBRATIONS = ("out_of_fold",)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Every combination of some choices.

    Attributes
    ----------
    data
        Names of data sets, or paths of CSV files (``table.csv#target``).
    networks
        Out of mc_dropout and deep_ensemble (the paper's), and default.
    regularizers
        Names from ``REGULARIZERS``, or conditional.
    strengths
        Strengths to train with, 0 for none; empty for each regularizer's own.
    epochs
        Lengths of the training; shorter ones are looked at on the way.
    recalibrations
        Out of none and isotonic (on the training fold), for the paper's networks, and
        out_of_fold, for the default.
    split
        unshuffled (the paper's), shuffled, or fixed (Year Prediction MSD's own).
    folds, repeats
        How many.
    """

    data: tuple[str, ...]
    networks: tuple[str, ...] = ("mc_dropout", "deep_ensemble")
    regularizers: tuple[str, ...] = ("cumulative_kl",)
    strengths: tuple[float, ...] = (0.0, 20.0)
    epochs: tuple[int, ...] = (100,)
    recalibrations: tuple[str, ...] = ("none",)
    split: str = "unshuffled"
    folds: int = 5
    repeats: int = 1

    def __post_init__(self) -> None:
        # 20 and 20.0 are the same plan.
        object.__setattr__(self, "strengths", tuple(map(float, self.strengths)))
        for name, choices in _CHOICES.items():
            given = getattr(self, name)
            _choose((given,) if isinstance(given, str) else given, choices, name)
        _choose(self.regularizers, (*REGULARIZERS, CONDITIONAL), "regularizers")
        self._check_numbers()

    def _check_numbers(self) -> None:
        least = {"folds": 1 if self.split == "fixed" else 2, "repeats": 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise InputError(
                    f"{name} must be at least {smallest}, got {getattr(self, name)}."
                )
        if self.split == "fixed" and self.folds != 1:
            raise InputError(f"the fixed split has 1 fold, got folds={self.folds}.")
        for name in ("data", "networks", "regularizers", "epochs", "recalibrations"):
            if not getattr(self, name):
                raise InputError(f"{name} of a study must not be empty.")
        allowed = all(0 <= each < math.inf for each in self.strengths)
        if min(self.epochs) < 1 or not allowed:
            raise InputError(
                "epochs must be at least 1 and strengths finite and at least 0, got "
                f"{self.epochs} and {self.strengths}."
            )
        self._check_recalibrations()

    def _check_recalibrations(self) -> None:
        for network in self.networks:
            if not self._recalibrations(network):
                raise InputError(
                    f"{network} has none of the recalibrations "
                    f"{', '.join(self.recalibrations)}: the paper's networks take none "
                    "and isotonic, the default takes out_of_fold."
                )

    def cells(self) -> Iterator[Cell]:
        """List its cells."""
        arms = product(self.data, self.networks, self._trainings(), self.epochs)
        for data, network, (regularizer, strength), epochs in arms:
            for recalibration in self._recalibrations(network):
                for repeat, fold in product(range(self.repeats), range(self.folds)):
                    yield Cell(
                        data=data,
                        split=self.split,
                        folds=self.folds,
                        network=network,
                        regularizer=regularizer,
                        strength=strength,
                        epochs=epochs,
                        recalibration=recalibration,
                        repeat=repeat,
                        fold=fold,
                    )

    def _trainings(self) -> list[tuple[str, float]]:
        """Regularizers with their strengths; strength 0 is the same for all."""
        pairs: dict[tuple[str, float], None] = {}
        for name in self.regularizers:
            own = STRENGTHS["cumulative_kl" if name == CONDITIONAL else name]
            for strength in self.strengths or (own,):
                pairs[name if strength else NO_REGULARIZER, float(strength)] = None
        return list(pairs)

    def _recalibrations(self, network: str) -> list[str]:
        """Those of the study that this network can have."""
        return [
            each
            for each in self.recalibrations
            if (each in _OWN_RECALIBRATIONS) == (network == "default")
        ]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Studies, and the seed that all their randomness comes from.

    Attributes
    ----------
    studies
        What is run, in this order; a cell that two of them ask for is run once.
    seed
        One seed, the same numbers.
    name
        For people.

    Examples
    --------
    >>> study = Study(data=("yacht",), networks=("mc_dropout",), repeats=2)
    >>> len(Plan(studies=(study,)).cells())
    20
    """

    studies: tuple[Study, ...]
    seed: int = 0
    name: str = "own"

    def cells(self) -> list[Cell]:
        """List all cells once, in the order of the studies."""
        return list(dict.fromkeys(c for study in self.studies for c in study.cells()))

    def __str__(self) -> str:
        """Return the plan as TOML, which ``read_plan`` reads."""
        lines = [f"name = {_toml(self.name)}", f"seed = {self.seed}"]
        for study in self.studies:
            lines += ["", "[[study]]"]
            for name, value in asdict(study).items():
                lines.append(f"{name} = {_toml(value)}")
        return "\n".join(lines) + "\n"


def _choose(given: tuple[str, ...], choices: tuple[str, ...], name: str) -> None:
    for each in given:
        if each not in choices:
            raise InputError(
                f"{name} must be out of {', '.join(choices)}, got {each!r}."
            )


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    # JSON's texts are TOML's, but for some letters.
    if isinstance(value, str):
        return escaped(json.dumps(value, ensure_ascii=False), toml=True)
    return repr(value)


def read_plan(path: Path) -> Plan:
    """Read a plan from TOML: ``seed``, ``name``, and any number of ``[[study]]``.

    Parameters
    ----------
    path
        The file. What a study leaves out has the default of ``Study``.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from None
    _only(content, ("name", "seed", "study"), f"{path}")
    studies = content.get("study", [])
    tables = isinstance(studies, list) and all(isinstance(e, dict) for e in studies)
    if not tables or not studies:
        raise InputError(f"{path} must hold at least one [[study]].")
    made = tuple(
        _study(each, f"{path}, study {i + 1}") for i, each in enumerate(studies)
    )
    seed, name = content.get("seed", 0), content.get("name", path.stem)
    if not _fits(seed, int) or not isinstance(name, str):
        raise InputError(f"{path}: seed must be a whole number and name a text.")
    return Plan(studies=made, seed=seed, name=name)


def _study(content: Mapping[str, Any], place: str) -> Study:
    types = {field.name: field.type for field in fields(Study)}
    _only(content, tuple(types), place)
    if "data" not in content:
        raise InputError(f"{place} must name its data.")
    values: dict[str, Any] = {}
    for name, value in content.items():
        many = str(types[name]).startswith("tuple")
        each = value if isinstance(value, list) else [value]
        kind = _kind(str(types[name]))
        if not all(_fits(item, kind) for item in each) or (
            not many and value != each[0]
        ):
            wanted = f"a list of {_KINDS[kind]}s" if many else f"a {_KINDS[kind]}"
            raise InputError(f"{place}: {name} must be {wanted}, got {value!r}.")
        values[name] = tuple(kind(item) for item in each) if many else value
    try:
        return Study(**values)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


_KINDS: dict[type, str] = {float: "number", int: "whole number", str: "text"}


def _kind(annotation: str) -> type:
    for name, kind in (("float", float), ("int", int)):
        if name in annotation:
            return kind
    return str


def _fits(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _only(content: Mapping[str, Any], names: tuple[str, ...], place: str) -> None:
    for name in content:
        if name not in names:
            raise InputError(
                f"{place} has no {name!r}. It may hold {', '.join(names)}."
            )
