"""What a reproduction runs: a frozen plan, from Python, TOML or a profile's name."""

import json
import math
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from calibrant._terminal import escaped
from calibrant.data import is_present
from calibrant.errors import InputError
from calibrant.paper.ledger import CHOICES, NO_REGULARIZER, Cell
from calibrant.regularizers import REGULARIZERS, STRENGTHS

#: The paper's regularizer within groups of predicted spread and mean.
CONDITIONAL = "conditional"


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
        _check_choices("networks", self.networks, CHOICES["network"])
        _check_choices("recalibrations", self.recalibrations, CHOICES["recalibration"])
        _check_choices("split", (self.split,), CHOICES["split"])
        _check_choices("regularizers", self.regularizers, (*REGULARIZERS, CONDITIONAL))
        for name in ("data", "networks", "regularizers", "epochs", "recalibrations"):
            if not getattr(self, name):
                raise InputError(f"{name} of a study must not be empty.")
        if self.split == "fixed" and self.folds != 1:
            raise InputError(f"the fixed split has 1 fold, got folds={self.folds}.")
        for name, least in {"folds": 1 + (self.split != "fixed"), "repeats": 1}.items():
            if (number := getattr(self, name)) < least:
                raise InputError(f"{name} must be at least {least}, got {number}.")
        finite = all(0 <= strength < math.inf for strength in self.strengths)
        if min(self.epochs) < 1 or not finite:
            raise InputError(
                "epochs must be at least 1 and strengths finite and at least 0, got "
                f"{self.epochs} and {self.strengths}."
            )
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
        """The default has its own recalibration, the paper's networks have theirs."""
        return [
            name
            for name in self.recalibrations
            if (name == "out_of_fold") == (network == "default")
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
            lines += [f"{name} = {_toml(v)}" for name, v in asdict(study).items()]
        return "\n".join(lines) + "\n"


def _check_choices(name: str, given: tuple[str, ...], choices: tuple[str, ...]) -> None:
    for choice in given:
        if choice not in choices:
            raise InputError(
                f"{name} must be out of {', '.join(choices)}, got {choice!r}."
            )


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
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
    _check_names(content, ("name", "seed", "study"), f"{path}")
    studies = content.get("study", [])
    if (
        not studies
        or not isinstance(studies, list)
        or not all(isinstance(study, dict) for study in studies)
    ):
        raise InputError(f"{path} must hold at least one [[study]].")
    made = tuple(
        _study(study, f"{path}, study {number}")
        for number, study in enumerate(studies, 1)
    )
    seed, name = content.get("seed", 0), content.get("name", path.stem)
    if not _fits(seed, int) or not isinstance(name, str):
        raise InputError(f"{path}: seed must be a whole number and name a text.")
    return Plan(studies=made, seed=seed, name=name)


_KINDS: dict[type, str] = {float: "number", int: "whole number", str: "text"}


def _study(content: Mapping[str, Any], place: str) -> Study:
    defaults = {field.name: field.default for field in fields(Study)} | {"data": ("",)}
    _check_names(content, tuple(defaults), place)
    if "data" not in content:
        raise InputError(f"{place} must name its data.")
    values: dict[str, Any] = {}
    for name, value in content.items():
        default = defaults[name]
        many = isinstance(default, tuple)
        kind = type(default[0] if isinstance(default, tuple) else default)
        items = value if many and isinstance(value, list) else [value]
        if not all(_fits(item, kind) for item in items):
            wanted = f"a list of {_KINDS[kind]}s" if many else f"a {_KINDS[kind]}"
            raise InputError(f"{place}: {name} must be {wanted}, got {value!r}.")
        values[name] = tuple(items) if many else value
    try:
        return Study(**values)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _fits(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _check_names(content: Collection[str], names: tuple[str, ...], place: str) -> None:
    for name in content:
        if name not in names:
            raise InputError(
                f"{place} has no {name!r}. It may hold {', '.join(names)}."
            )


#: Plans by name; each is a file in ``plans/``.
PROFILES = ("quick", "paper", "shuffled")


def profile(name: str, *, seed: int = 0) -> Plan:
    """Return a plan by name.

    Parameters
    ----------
    name
        ``"quick"`` (minutes), ``"paper"`` or ``"shuffled"`` (hours).
    seed
        Of the plan.

    Examples
    --------
    >>> len(profile("quick").cells())
    345
    """
    if name not in PROFILES:
        raise InputError(f"profile must be one of {', '.join(PROFILES)}, got {name!r}.")
    plan = read_plan(Path(__file__).with_name("plans") / f"{name}.toml")
    # Of the paper's sets one is too large to be bundled.
    missing = () if is_present("year_msd") else ("year_msd",)
    studies = tuple(study for study in plan.studies if study.data != missing)
    return replace(plan, studies=studies, seed=seed)


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
    given = [f"the profile {name}"] * (name is not None)
    given += [str(path)] * (path is not None) + [", ".join(options)] * bool(options)
    if len(given) > 1:
        raise InputError(
            "a plan is given by a profile, a file, or options of its own, got "
            f"{' and '.join(given)}. `--print-plan` prints a profile to be changed."
        )
    if path is not None:
        plan = read_plan(path)
    elif options:
        plan = Plan(studies=(_study_of_options(options),))
    else:
        plan = profile(name or "quick")
    if only:
        plan = _restricted(plan, only)
    return plan if seed is None else replace(plan, seed=seed)


def _study_of_options(options: Mapping[str, Any]) -> Study:
    if "data" not in options:
        raise InputError(
            f"{', '.join(options)} make a plan of your own, which must name its data: "
            "add --data."
        )
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
    }
    if values.get("split") == "fixed":
        values.setdefault("folds", 1)
    return Study(**values)


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
