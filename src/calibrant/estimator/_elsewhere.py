"""Members trained by the workers of a Dask cluster, all strengths at once."""

import contextlib
import copy
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calibrant._checks import InputError
from calibrant._dask import (
    SchedulerError,
    WorkerDiedError,
    check_address,
    explained,
    run_on_dask,
)
from calibrant._progress import Bar
from calibrant._version import __version__
from calibrant.estimator._group import Group, GroupJob, Stack, train_group
from calibrant.estimator._members import Members
from calibrant.estimator._state import json_values
from calibrant.networks.heads import GaussianHead, LaplaceHead
from calibrant.training import DivergedError, History, Recipe, TrainingData

if TYPE_CHECKING:
    from calibrant.estimator.regressor import CalibratedRegressor

__all__ = ["Elsewhere", "Untrained", "check_scheduler"]

#: Members of a task; the last one may have half as many, or half as many more.
#: Processors take up to 16 numbers at once and round those that are left over at the
#: end of an array otherwise: cut at multiples of 16, arrays end as in the whole stack.
GROUP = 16
# The norms of many members' gradients, which are clipped, are added up in fours of 16.
_MANY, _LARGE_GROUP = 32, 64
# Other laws have operations that are rounded by the place in an array in any case.
_EXACT = (GaussianHead, LaplaceHead)
# What a worker needs to know of the network; how it is trained is in the recipe.
_NETWORK = ("network", "hidden", "head", "spread_floor", "dropout", "passes")
# Parameters that a recipe does not call by the same name.
_RENAMED = {"score": "loss"}

Outcome = tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]


def check_scheduler(model: "CalibratedRegressor") -> None:
    """Refuse an address that is none, and parameters that no worker could be told."""
    if model.scheduler is None:
        return
    check_address(model.scheduler)
    if model.distributed:
        raise InputError(
            "members are trained by the workers of a scheduler, or by the processes of "
            "torchrun, got a scheduler and distributed=True. Leave one of them out."
        )
    if len(model.callbacks) > 0:
        raise InputError(
            "callbacks look at a training in this process, and with a scheduler it is "
            "in others. Leave callbacks or the scheduler out."
        )
    recipe = [_RENAMED.get(name, name) for name in Recipe.names()]
    names = [name for name in (*_NETWORK, *recipe) if name != "strength"]
    json_values({name: getattr(model, name) for name in names})


class Untrained:
    """Stands for ``train`` and keeps what it was called with."""

    network: nn.Module
    data: TrainingData
    source: Tensor

    def __call__(
        self,
        network: nn.Module,
        data: TrainingData,
        recipe: Recipe,  # noqa: ARG002  (as train takes it)
        *,
        generator: torch.Generator,
        **options: object,  # noqa: ARG002
    ) -> History:
        """Keep the network, its rows, and the state of the generator."""
        self.network, self.data = network, data
        self.source = generator.get_state()
        return History()


@dataclass(frozen=True)
class _Strength:
    """What has come of one strength: a part for each task, or an error."""

    jobs: tuple[GroupJob, ...]
    parts: dict[GroupJob, Outcome]
    failures: list[DivergedError]

    @property
    def waits(self) -> bool:
        return not self.failures and len(self.parts) < len(self.jobs)


class Elsewhere:
    """Trains the members of a design, with each of some strengths.

    All tasks are handed out at once; a strength is waited for when it is asked for.

    Parameters
    ----------
    model
        Its parameters say how.
    members
        Untrained.
    untrained
        The stack and its rows.
    recipes
        By strength.
    """

    def __init__(
        self,
        model: "CalibratedRegressor",
        members: Members,
        untrained: Untrained,
        recipes: dict[float, Recipe],
    ) -> None:
        self._members, self._network = members, untrained.network
        groups = _groups(untrained, clipped=model.gradient_clip is not None)
        self._tried = {
            strength: _Strength(_jobs(strength, recipe, groups), {}, [])
            for strength, recipe in recipes.items()
        }
        self._results = run_on_dask(
            train_group,
            self._wanted(),
            address=str(model.scheduler),
            shared=_stack(model, untrained),
        )
        total = len(groups) * len(recipes)
        columns = ("count", "elapsed", "left")
        self._bar = Bar("training", columns, total=total, shown=model.progress)
        self._done = 0
        self._open = contextlib.ExitStack()
        self._open.enter_context(contextlib.closing(self._results))  # type: ignore[type-var]
        self._open.enter_context(self._bar)

    def close(self) -> None:
        """Take back what has not begun, and leave the cluster."""
        self._open.close()

    def train(self, strength: float) -> tuple[Members, list[History]]:
        """Wait for the members of one strength."""
        tried = self._tried[strength]
        while tried.waits:
            self._take(*next(self._results))
        if tried.failures:
            raise tried.failures[0]
        parts = [tried.parts[job] for job in tried.jobs]
        network = copy.deepcopy(self._network).eval()
        network.load_state_dict(
            {
                name: torch.from_numpy(
                    np.concatenate([state[name] for state, _ in parts])
                )
                for name in parts[0][0]
            }
        )
        histories = [History(**history) for _, history in parts]
        return self._members.with_networks([network]), histories

    def _wanted(self) -> Iterator[GroupJob]:
        for tried in self._tried.values():
            for job in tried.jobs:
                if not tried.failures:  # a strength that has diverged needs no more
                    yield job

    def _take(self, job: GroupJob, outcome: Outcome | Exception) -> None:
        tried = self._tried[job.strength]
        if isinstance(outcome, DivergedError):
            tried.failures.append(outcome)
        elif isinstance(outcome, Exception):
            raise _explained(outcome, job)
        else:
            tried.parts[job] = outcome
        self._done += 1
        self._bar.show(completed=self._done)


def _explained(error: Exception, job: GroupJob) -> Exception:
    who = f"members {job.group.own[0] + 1} to {job.group.own[-1] + 1}"
    if isinstance(error, WorkerDiedError):
        return SchedulerError(
            f"the training of {who} with strength {job.strength:g} ended its workers "
            "again and again, most often for a lack of memory. Start workers with "
            "more of it (dask worker --memory-limit), or train with fewer rows or "
            f"smaller networks. ({error})"
        )
    return explained(error)


def _groups(untrained: Untrained, *, clipped: bool) -> list[Group]:
    """Cut a stack into tasks, by a rule that knows nothing of the cluster.

    Dropout masks of all members come out of one source, so a stack with dropout stays
    whole, and so does one whose members would not be the same to the last bit.
    """
    network: Any = untrained.network
    total = len(untrained.data.rows)
    if network.stack.threshold > 0 or type(network.head) not in _EXACT:
        return [Group(tuple(range(total)), 0, total)]
    counts = [0] * total
    if untrained.data.held_out is not None:
        counts = [len(each) for each in untrained.data.held_out]
    longest = counts.index(max(counts))
    size = _LARGE_GROUP if clipped and total >= _MANY else GROUP
    starts = range(0, max(1, total - size // 2 + 1), size)
    groups = []
    for start, end in itertools.pairwise((*starts, total)):
        own = tuple(range(start, end))
        before = after = 0
        if max(counts[start:end]) < counts[longest]:
            # Before the last ones so many that the end of an array is where it was.
            before, after = (size, 0) if end == total else (0, 1)
        members = (longest,) * before + own + (longest,) * after
        groups.append(Group(members, before, len(own)))
    return groups


def _jobs(
    strength: float, recipe: Recipe, groups: Sequence[Group]
) -> tuple[GroupJob, ...]:
    text = json.dumps(json_values(vars(recipe)))
    return tuple(GroupJob(strength, text, group) for group in groups)


def _stack(model: "CalibratedRegressor", untrained: Untrained) -> Stack:
    data = untrained.data
    network = json_values({name: getattr(model, name) for name in _NETWORK})
    network["floor"] = network.pop("spread_floor")
    if model.network != "mc_dropout":
        del network["dropout"], network["passes"]
    settings = {"network": network, "device": str(model.device), "version": __version__}
    targets, y_of = _distinct(data.y)
    return Stack(
        settings=json.dumps(settings),
        weights={
            name: each.cpu().numpy()
            for name, each in untrained.network.state_dict().items()
        },
        x=data.x.numpy(),
        y=targets.numpy(),
        y_of=y_of,
        rows=tuple(each.numpy() for each in data.rows),
        held_out=None
        if data.held_out is None
        else tuple(each.numpy() for each in data.held_out),
        row_weights=None if data.weights is None else data.weights.numpy(),
        source=untrained.source.numpy(),
    )


def _distinct(y: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """Targets that differ, and which of them each member sees: folds share theirs."""
    places: list[int] = []
    found: list[Tensor] = []
    for each in y:
        if not found or not torch.equal(each, found[-1]):
            found.append(each)
        places.append(len(found) - 1)
    return torch.stack(found), tuple(places)
