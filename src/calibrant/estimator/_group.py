"""Some members of a stack, trained by a worker: plain arrays and JSON go in and out."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from calibrant._dask import SchedulerError
from calibrant._version import __version__
from calibrant.estimator._members import Architecture
from calibrant.estimator._state import from_json_values
from calibrant.training import DivergedError, Recipe, TrainingData, train

__all__ = ["Group", "GroupJob", "Stack", "train_group"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Stack:
    """An untrained stack and its rows, which all jobs share.

    Attributes
    ----------
    settings
        Network, device and version, as JSON.
    weights
        State of the network by name, all members on the first axis.
    x
        Features, shape ``(n, d)``.
    y, y_of
        Standardized targets ``(k, n)``, and which of them each member sees.
    rows, held_out
        For each member the rows that it learns from, and those that early stopping
        looks at, or None.
    row_weights
        Of the rows in the score, shape ``(n,)``, or None.
    source
        State of the generator of batch orders.
    """

    settings: str
    weights: Mapping[str, Array]
    x: Array
    y: Array
    y_of: tuple[int, ...]
    rows: tuple[Array, ...]
    held_out: tuple[Array, ...] | None
    row_weights: Array | None
    source: Array


@dataclass(frozen=True)
class Group:
    """Members that are trained together.

    Attributes
    ----------
    members
        Which members of the stack. Besides the wanted ones there may be one whose
        held-out rows are as many as any member has: all are padded to that number, and
        sums of other lengths are rounded otherwise.
    first, count
        Place of the first wanted member among them, and how many are wanted.
    """

    members: tuple[int, ...]
    first: int
    count: int

    @property
    def wanted(self) -> slice:
        """Places of those that are wanted."""
        return slice(self.first, self.first + self.count)

    @property
    def own(self) -> tuple[int, ...]:
        """The members that are wanted."""
        return self.members[self.wanted]


@dataclass(frozen=True)
class GroupJob:
    """Members to train with one strength.

    Attributes
    ----------
    strength
        Of the regularizer.
    recipe
        How, as JSON.
    group
        Who.
    """

    strength: float
    recipe: str
    group: Group


@dataclass(frozen=True, kw_only=True)
class _PartOfStack(TrainingData):
    """Rows of some members, whose orders are those that they have in the stack."""

    whole: TrainingData
    members: tuple[int, ...]

    def to(self, device: torch.device) -> "_PartOfStack":
        """Move everything but the stack's orders to a device."""
        moved = vars(super().to(device)) | {
            "whole": self.whole,
            "members": self.members,
        }
        return _PartOfStack(**moved)

    def order(self, generator: torch.Generator) -> Tensor:
        """Draw the orders of all members, and take those of these."""
        return self.whole.order(generator)[list(self.members)].to(self.x.device)


def train_group(job: GroupJob, stack: Stack) -> tuple[dict[str, Array], dict[str, Any]]:
    """Train some members of a stack as they are trained among all others.

    Returns
    -------
    tuple
        Their state by name, members on the first axis, and their history as plain
        lists.
    """
    settings = json.loads(stack.settings)
    if settings["version"] != __version__:
        raise SchedulerError(
            f"all workers must have calibrant {settings['version']}, and one has "
            f"{__version__}. Install the same version everywhere."
        )
    device = settings["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    options = from_json_values(settings["network"])
    architecture = Architecture(options.pop("network"), options)
    network: torch.nn.Module
    members = list(job.group.members)
    (network,) = architecture.build(stack.x.shape[1], len(members), torch.Generator())
    # Copies, because arrays that have come by wire must not be written to.
    network.load_state_dict(
        {name: torch.tensor(each[members]) for name, each in stack.weights.items()}
    )
    source = torch.Generator()
    source.set_state(torch.tensor(stack.source))
    try:
        history = train(
            network.to(device),
            _data(job.group.members, stack),
            Recipe(**from_json_values(json.loads(job.recipe))),
            generator=source,
        )
    except DivergedError as error:
        raise DivergedError(
            _renumbered(str(error), job.group, len(stack.rows))
        ) from error
    state = {
        name: each[job.group.wanted].cpu().numpy()
        for name, each in network.state_dict().items()
    }
    history.best_epoch = history.best_epoch[job.group.wanted]
    return state, vars(history)


def _data(members: tuple[int, ...], stack: Stack) -> TrainingData:
    x = torch.tensor(stack.x)
    weights = None if stack.row_weights is None else torch.tensor(stack.row_weights)
    rows = [torch.tensor(each) for each in stack.rows]
    # Nobody looks at these targets: one number stands for all of them.
    nothing = x.new_zeros(()).expand(len(rows), len(x))
    held_out = None
    if stack.held_out is not None:
        held_out = [torch.tensor(stack.held_out[each]) for each in members]
    return _PartOfStack(
        x=x,
        y=torch.tensor(stack.y[[stack.y_of[each] for each in members]]),
        rows=[rows[each] for each in members],
        held_out=held_out,
        weights=weights,
        whole=TrainingData(x=x, y=nothing, rows=rows),
        members=members,
    )


def _renumbered(text: str, group: Group, total: int) -> str:
    """Name a member by its number in the stack."""

    def number(found: re.Match[str]) -> str:
        return f"member {group.members[int(found[1]) - 1] + 1} of {total}"

    return re.sub(r"member (\d+) of \d+", number, text)
