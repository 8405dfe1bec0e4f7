"""The training loop, for a stack of networks or any module that predicts."""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from calibrant._distributed import Team, fingerprint_of, join_team, plain
from calibrant._progress import Bar
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import (
    as_distribution,
    with_detached_location,
)
from calibrant.metrics.calibration import expected_calibration_error
from calibrant.regularizers.conditional import ConditionalRegularizer
from calibrant.regularizers.module import QuantileRegularizer
from calibrant.scores import SCORES, beta_nll
from calibrant.training.data import TrainingData
from calibrant.training.history import (
    DivergedError,
    EpochState,
    History,
    InterruptedWarning,
)
from calibrant.training.recipe import SCHEDULES, Recipe
from calibrant.validation import InputError, find_part

Callback = Callable[[EpochState], bool | None]
Judge = Callable[[nn.Module], float]

# Rows that a member predicts at once when nothing is learned.
_CHUNK = 4096
# Of the held-out calibration error.
_LEVELS = 20
#: Weights of networks whose inputs are of order 1 do not come near this.
_VAST = 1e4


def train(
    network: nn.Module,
    data: TrainingData,
    recipe: Recipe,
    *,
    generator: torch.Generator,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = False,
    title: str = "training",
    distributed: bool = False,
    judge: Judge | None = None,
) -> History:
    """Train a network in place.

    Parameters
    ----------
    network
        A stack with ``members`` (``NETWORKS``), or any module that turns ``(n, d)``
        into a distribution of batch shape ``(n,)``, with data for one member.
    data, recipe
        Rows and who learns from which; and how.
    generator
        Source of batch orders and dropout masks, on the CPU. A module's own
        ``nn.Dropout`` is seeded from it too; the global state stays as it was.
    callbacks
        Called after each epoch; one that returns True ends the training.
    progress, title
        Show a progress bar with this title; None shows one on a terminal only.
    distributed
        Train with all processes that torchrun has started, each with its part of every
        batch. All must be given the same data, recipe and generator; the weights are
        those of one process alone, to rounding, but for dropout masks and batch
        normalization. The first process alone shows progress and calls callbacks.
    judge
        A score of the network, smaller is better, that early stopping looks at instead
        of each member's held-out rows: all members keep the weights of one epoch.

    Returns
    -------
    History
        Curves. Ctrl-C ends the training, keeps the best weights so far, warns, and
        sets ``interrupted``.

    Raises
    ------
    DivergedError
        When the loss is not finite; it names epoch, step, member and likely cause.

    Examples
    --------
    >>> from calibrant import DeepEnsemble
    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.linspace(-1, 1, 64).unsqueeze(1)
    >>> network = DeepEnsemble(1, members=2, hidden=(16,), generator=generator)
    >>> data = TrainingData(x=x, y=x.T.expand(2, -1), rows=[torch.arange(64)] * 2)
    >>> history = train(network, data, Recipe(epochs=200), generator=generator)
    >>> history.loss[-1] < history.loss[0] - 1
    True
    """
    team = join_team(next(network.parameters()).device.type) if distributed else None
    rank = 0 if team is None else team.rank
    if rank > 0:
        callbacks, progress = (), False
    trainer = Trainer(network, data, recipe, generator, team=team, judge=judge)
    history, device = History(), trainer.data.x.device
    columns = ("count", "left", "{task.fields[numbers]}")
    with (
        torch.enable_grad(),  # a caller may have switched it off
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        Bar(title, columns, total=recipe.epochs, shown=progress, numbers="") as bar,
    ):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)) + rank)
        try:
            for epoch in range(1, recipe.epochs + 1):
                state = trainer.epoch(epoch)
                history.add(state)
                bar.show(completed=epoch, numbers=_shown(state))
                stops = [callback(state) for callback in callbacks]
                if trainer.ends(epoch, stopped=any(stops)):
                    break
        except KeyboardInterrupt:
            if team is not None:  # the others may be an epoch ahead
                raise
            history.interrupted = True
    history.best_epoch = trainer.finish(len(history.loss))
    if history.interrupted:
        warnings.warn(
            f"training was interrupted after {len(history.loss)} of {recipe.epochs} "
            "epochs; the model keeps its best weights so far.",
            InterruptedWarning,
            stacklevel=2,
        )
    return history


def _shown(state: EpochState) -> str:
    numbers = f"loss {state.loss:.3f}  regularizer {state.regularizer:.4f}"
    score, error = state.held_out_score, state.held_out_calibration_error
    if error is None:
        return numbers
    return f"{numbers}  held out: score {score:.3f}, calibration error {error:.4f}"


class Trainer:
    """State and steps of one training; parameters as for :func:`train`."""

    def __init__(
        self,
        network: nn.Module,
        data: TrainingData,
        recipe: Recipe,
        generator: torch.Generator,
        *,
        team: Team | None = None,
        judge: Judge | None = None,
    ) -> None:
        self.network, self.recipe, self.generator = network, recipe, generator
        self.team, self.judge = team, judge
        self.parameters = [part for part in network.parameters() if part.requires_grad]
        if not self.parameters:
            raise InputError("the network has no parameters to train.")
        device = self.parameters[0].device
        # An ordinary ensemble may well keep its modules in an attribute of this name.
        members: Any = getattr(network, "members", None)
        self.stacked = isinstance(members, int)
        self.members = members if self.stacked else 1
        if len(data.rows) != self.members:
            raise InputError(
                f"the data is for {len(data.rows)} members and the network has "
                f"{self.members}. Give data.rows and data.y one entry for each."
            )
        self.data = data.to(device)
        self.weights = self.data.member_weights()
        score: Any = beta_nll if recipe.score == "beta_nll" else recipe.score
        self.score: Any = find_part(score, SCORES, name="score")
        self.regularizer = _regularizer(recipe, team)
        self.strengths = _strengths(recipe, self.members).to(self.data.x)
        self.regularized = bool((self.strengths != 0).any())
        self.schedule = find_part(recipe.schedule, SCHEDULES, name="schedule")
        kinds: Any = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        self.optimizer: torch.optim.Optimizer = kinds[recipe.optimizer](
            self.parameters,
            lr=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        self.adversarial = recipe.adversarial > 0
        if self.adversarial:
            self.reach = recipe.adversarial * self.data.ranges()
        self.floor: float | None = None
        held_out = self.data.held_out
        if held_out is not None:
            self.held_out = _padded(held_out)
            floors = [
                expected_calibration_error(len(own), levels=_LEVELS) for own in held_out
            ]
            self.floor = sum(floors) / len(floors)
        self.best: _BestWeights | None = None
        if recipe.patience is not None:
            if held_out is None and judge is None:
                raise InputError(
                    f"early stopping (patience={recipe.patience}) looks at rows that "
                    "are not learned from, and there are none. Give data.held_out, or "
                    "set patience=None."
                )
            # Of a plain module also its running statistics.
            everything = [*network.parameters(), *network.buffers()]
            tensors = self.parameters if self.stacked else everything
            self.best = _BestWeights(tensors, self.members, recipe.patience)
        # Masks are drawn where the network is, orders on the CPU.
        seed = int(torch.randint(2**62, (), generator=generator))
        rank = 0 if team is None else team.rank  # other rows, other masks
        self.masks = torch.Generator(device).manual_seed(seed + rank)
        # Drawn only where it is used: other trainings keep their orders.
        self.apart: Iterator[Tensor] | None = None
        if data.regularized is not None and self.regularized:
            seed = int(torch.randint(2**62, (), generator=generator))
            source = torch.Generator().manual_seed(seed)
            self.apart = self.data.regularized_batches(source)
        if team is not None:
            seen = [data.x, data.y, data.weights, *data.rows]
            seen += [*(data.held_out or ()), *(data.regularized or ())]
            shapes = [tuple(part.shape) for part in self.parameters]
            parts = [*plain(vars(recipe)), shapes, generator.get_state()]
            name = "rows, recipe, network and generator"
            team.check_alike(fingerprint_of(*seen, *parts), name=name, device=device)
            team.share([*network.parameters(), *network.buffers()])

    def epoch(self, number: int) -> EpochState:
        """Train for one epoch and look at the held-out rows."""
        self.network.train()
        order = self.data.order(self.generator)
        batches = order.split(self.recipe.batch_size, dim=1)
        loss = regularizer = 0.0
        for step, rows in enumerate(batches):
            done = (number - 1 + step / len(batches)) / self.recipe.epochs
            for group in self.optimizer.param_groups:
                group["lr"] = self.recipe.learning_rate * self.schedule(done)
            values = self.step(rows, f"epoch {number}, step {step + 1}")
            share = rows.shape[1] / order.shape[1]
            loss += share * values[0]
            regularizer += share * values[1]
        score, error = self._look(number)
        return EpochState(
            epoch=number,
            epochs=self.recipe.epochs,
            loss=loss,
            regularizer=regularizer,
            held_out_score=score,
            held_out_calibration_error=error,
            held_out_calibration_floor=self.floor,
            network=self.network,
        )

    def step(self, rows: Tensor, place: str) -> tuple[float, float]:
        """Take one step with rows ``(members, b)``; tell mean loss and regularizer."""
        team, self.batch = self.team, rows.shape[1]
        if team is not None:
            rows = team.part(rows)
        x, y = self.data.batch(rows)
        self.optimizer.zero_grad(set_to_none=True)
        with self._explained(place, x, y):
            loss, regularizer = self._loss(x, y, rows)
        # All processes see the same loss, and so diverge together.
        found = loss.detach() if team is None else team.mean(loss)
        value = float(found.sum())
        if not math.isfinite(value):
            raise self._diverged(place, ~torch.isfinite(found), x, y)
        loss.sum().backward(inputs=self.parameters)  # not by the features
        if team is not None:
            team.average(self.parameters)
        self._clip()
        self.optimizer.step()
        shown = 0.0 if regularizer is None else float(regularizer.detach().mean())
        return value / self.members, shown

    def _loss(self, x: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Loss of each member, shape ``(members,)``, and its regularizer if any."""
        predicted = self._predicted(x.requires_grad_(self.adversarial))
        score = self._mean_score(predicted, y, rows)
        loss, regularizer = score, None
        if self.regularized:
            if self.apart is not None:  # rows whose score is not learned from
                others = next(self.apart)
                others = others if self.team is None else self.team.part(others)
                other_x, y_seen = self.data.batch(others)
                seen = self._predicted(other_x)
                if not self.recipe.regularize_whole:
                    seen = with_detached_location(seen)
            else:
                seen, y_seen = predicted, y
            regularizer = self.regularizer(seen, self._target(y_seen))
            loss = score + self.strengths * regularizer
        if self.adversarial:  # rows moved to where the score is worse (FGSM)
            (slope,) = torch.autograd.grad(score.sum(), x, retain_graph=True)
            moved = torch.addcmul(x.detach(), self.reach, slope.sign_())
            loss = (loss + self._mean_score(self._predicted(moved), y, rows)) / 2
        return loss, regularizer

    def _target(self, y: Tensor) -> Tensor:
        return y if self.stacked else y[0]

    def _predicted(self, x: Tensor) -> AbstractDistribution:
        """Distribution of each member, ``(members, b)``; of a plain module ``(b,)``."""
        if self.stacked:
            stack: AbstractDistribution = self.network(x, generator=self.masks)
            return stack
        predicted = as_distribution(self.network(x[0]))
        if tuple(predicted.batch_shape) != (x.shape[1],):
            raise InputError(
                "the network must return a distribution of batch shape (n,) for inputs "
                f"(n, d), got {tuple(predicted.batch_shape)} for n = {x.shape[1]}. "
                "squeeze(-1) its mean and spread."
            )
        return predicted

    def _mean_score(
        self, predicted: AbstractDistribution, y: Tensor, rows: Tensor
    ) -> Tensor:
        """Weighted mean score of each member, shape ``(members,)``."""
        scores: Tensor = self.score(predicted, self._target(y)).reshape(rows.shape)
        if self.weights is not None:
            # All of a member's have mean 1; those of a batch only in expectation.
            scores = self.weights.gather(1, rows) * scores
        if self.team is not None:  # the mean over processes is that over the batch
            return scores.sum(1) * (self.team.size / self.batch)
        return scores.mean(1)

    def _clip(self) -> None:
        """Shorten each member's gradient; members must not feel each other."""
        longest = self.recipe.gradient_clip
        if longest is None:
            return
        gradients = [part.grad for part in self.parameters if part.grad is not None]
        squares = [part.reshape(self.members, -1).square().sum(1) for part in gradients]
        norms = torch.stack(squares).sum(0).sqrt()
        factor = (longest / norms.clamp_min(1e-30)).clamp_max(1)
        for part in gradients:
            axes = [1] * (part.ndim - 1)
            part.mul_(factor.view(-1, *axes) if self.stacked else factor[0])

    def _look(self, epoch: int) -> tuple[float | None, float | None]:
        """Judge the network and keep the weights of members that improved."""
        judge, error = self.judge, None
        if judge is None and self.floor is None:
            return None, None
        self._share_buffers()
        # What predicts by passes with dropout is judged by one of them.
        self.network.train(getattr(self.network, "passes", 1) > 1 and self.stacked)
        with torch.no_grad():
            if judge is not None:
                score = torch.tensor(judge(self.network), dtype=torch.float64)
                score = score.to(self.data.x.device)
            else:
                score, error = self._held_out_scores(epoch)
        if self.team is not None:
            score = self.team.agreed(score)
        if self.best is not None:
            self.best.look(score.expand(self.members), epoch)
        return float(score.mean()), error

    def _held_out_scores(self, epoch: int) -> tuple[Tensor, float]:
        """Mean score of each member's held-out rows, and their calibration error."""
        rows, real = self.held_out
        place = f"the held-out rows after epoch {epoch}"
        parts = []
        for part in rows.split(_CHUNK, dim=1):
            x, y = self.data.batch(part)
            target = self._target(y)
            with self._explained(place, x, y):
                predicted = self._predicted(x)
                scores, pit = self.score(predicted, target), predicted.cdf(target)
            scores = scores.reshape(part.shape)
            lost = scores.isnan()  # a target outside of the support scores infinity
            if lost.any():
                raise self._diverged(place, lost.any(1), x, y)
            parts.append((scores, pit.reshape(part.shape)))
        scores, pit = (torch.cat(values, 1) for values in zip(*parts, strict=True))
        weights = counts = real.to(scores.dtype)
        if self.weights is not None:
            weights = counts * self.weights.gather(1, rows)
            # Held-out rows that all weigh nothing are better than none.
            weights = torch.where(weights.sum(1, keepdim=True) > 0, weights, counts)
        means = (scores * weights).sum(1) / weights.sum(1)
        return means, _calibration_error(pit, real)

    def _share_buffers(self) -> None:
        if self.team is not None and not self.stacked:
            self.team.share(self.network.buffers())

    def ends(self, epoch: int, *, stopped: bool) -> bool:
        """Tell whether a callback stops it, or no member has improved for too long."""
        ends = stopped or (self.best is not None and self.best.exhausted(epoch))
        if self.team is None:
            return ends
        return bool(self.team.agreed(torch.tensor(ends, device=self.data.x.device)))

    def finish(self, epochs: int) -> list[int]:
        """Give the best weights back, and say from which epochs they are."""
        self.network.eval()
        self._share_buffers()
        if self.best is not None:
            return self.best.restore()
        # What the last step has done, no loss has shown.
        bad = _spoiled(self.parameters, self.members)
        if bad.any():
            none, place = self.data.x[:0], f"epoch {epochs}, after its last step"
            raise self._diverged(place, bad, none, none)
        return [epochs] * self.members

    @contextmanager
    def _explained(self, place: str, x: Tensor, y: Tensor) -> Iterator[None]:
        """Raise DivergedError for a refusal that comes from a diverged training."""
        try:
            yield
        except ValueError as error:
            bad = _spoiled([x, y], self.members)
            bad |= _spoiled(self.parameters, self.members, _VAST)
            if bad.any() or re.search(r"\b(nan|inf)\b", str(error), re.IGNORECASE):
                raise self._diverged(place, bad, x, y) from error
            raise

    def _diverged(self, place: str, bad: Tensor, x: Tensor, y: Tensor) -> DivergedError:
        """Say who diverged, where, and the likely cause."""
        first = int(bad.int().argmax())
        known = bool(bad.any()) or self.members == 1
        who = f"member {first + 1} of {self.members}" if known else "a member"
        if _spoiled([x, y], self.members)[first]:
            cause = "the features or targets hold NaN or infinity; look for them first"
        elif _spoiled(self.parameters, self.members, _VAST)[first]:
            cause = (
                "earlier steps have thrown its weights out of all bounds: the learning "
                f"rate of {self.recipe.learning_rate:g} is too high for these data; "
                "lower it, or set gradient_clip=1.0"
            )
        else:
            cause = (
                "its predicted spread came too near to 0 for a target far away, often "
                "an outlier; raise the spread's floor, lower the learning rate, or set "
                "gradient_clip=1.0"
            )
        return DivergedError(
            f"the loss of {who} is not finite in {place}. Likely cause: {cause}."
        )


class _BestWeights:
    """Early stopping: the weights of each member's best epoch, by its score."""

    def __init__(self, tensors: Sequence[Tensor], members: int, patience: int) -> None:
        self._tensors, self._patience = tensors, patience
        self._score = torch.full((members,), torch.inf)
        self._epoch = torch.zeros(members, dtype=torch.long)
        self._kept: list[Tensor] | None = None

    def look(self, scores: Tensor, epoch: int) -> None:
        """Keep the weights of members whose score ``(members,)`` is their best yet."""
        scores = scores.cpu()
        # A member that ran out of patience is done, however long others train on: what
        # it becomes must not depend on their rows.
        done = epoch - 1 - self._epoch >= self._patience
        better = (scores < self._score) & ~done
        self._score = torch.where(better, scores, self._score)
        self._epoch[better] = epoch
        if self._kept is None:
            self._kept = [now.detach().clone() for now in self._tensors]
        elif better.any():
            # A whole module has tensors without an axis of members.
            chosen = ... if better.all() else better
            for kept, now in zip(self._kept, self._tensors, strict=True):
                kept[chosen] = now.detach()[chosen]

    def exhausted(self, epoch: int) -> bool:
        """Tell whether all members are done."""
        return bool((epoch - self._epoch >= self._patience).all())

    def restore(self) -> list[int]:
        """Give the best weights back, and say from which epochs they are."""
        with torch.no_grad():
            for now, best in zip(self._tensors, self._kept or (), strict=False):
                now.copy_(best)
        return self._epoch.tolist()


def _regularizer(recipe: Recipe, team: Team | None) -> QuantileRegularizer:
    options: dict[str, Any] = {
        "strength": 1.0,
        "sort": recipe.sort,
        "validate": False,
        # Said outright: a process may train a model of its own beside the others.
        "distributed": team is not None,
    }
    if recipe.conditional:
        by = tuple(recipe.conditional)
        return ConditionalRegularizer(recipe.regularizer, by=by, **options)
    return QuantileRegularizer(recipe.regularizer, **options)


def _strengths(recipe: Recipe, members: int) -> Tensor:
    values = torch.as_tensor(recipe.strength, dtype=torch.float64)
    if values.ndim and len(values) != members:
        raise InputError(
            f"strength must be one number, or one for each of the {members} members, "
            f"got {len(values)}."
        )
    return values.expand(members)


def _spoiled(
    tensors: Sequence[Tensor], members: int, largest: float = math.inf
) -> Tensor:
    """Tell which members have NaN or too large a number in any tensor."""
    fine = [(part.abs() < largest).reshape(members, -1).all(1) for part in tensors]
    return ~torch.stack(fine).all(0)


def _padded(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Stack ragged rows, and tell the real entries; both ``(members, longest)``."""
    longest = max(len(own) for own in rows)
    repeated = [own.repeat(-(-longest // len(own)))[:longest] for own in rows]
    place = torch.arange(longest, device=rows[0].device)
    return torch.stack(repeated), torch.stack([place < len(own) for own in rows])


def _calibration_error(pit: Tensor, real: Tensor) -> float:
    """Mean over members of ``calibration_error`` of those that are real.

    One pass for all members ``(members, n)``, and NaN lies below no level.
    """
    nominal = torch.arange(1, _LEVELS + 1, device=pit.device).double() / _LEVELS
    place = torch.bucketize(pit, nominal.to(pit.dtype))
    count = torch.zeros(len(pit), _LEVELS + 1, device=pit.device, dtype=torch.float64)
    count.scatter_add_(1, place, real.double())
    observed = count.cumsum(1)[:, :-1] / real.sum(1, keepdim=True)
    return float((observed - nominal).square().sum(1).mean())
