"""State and steps of one training."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from calibrant._checks import InputError, find_part
from calibrant._distributed import collective
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.training._diagnosis import VAST, diagnosis, is_spoiled, speaks_of_nan
from calibrant.training._early_stopping import (
    EarlyStopping,
    held_out_calibration_error,
    held_out_calibration_floor,
    padded,
)
from calibrant.training._team import Team, fingerprint_of, plain
from calibrant.training.data import TrainingData
from calibrant.training.history import DivergedError, EpochState
from calibrant.training.losses import make_regularizer, make_score, strengths
from calibrant.training.recipe import SCHEDULES, Recipe

__all__ = ["Trainer"]

# Rows that a member predicts at once when nothing is learned.
_CHUNK = 4096


class Trainer:
    """State of one training; ``train`` is its door.

    Parameters
    ----------
    network, data, recipe, generator
        As for ``train``.
    team
        The processes that train it together, or None.
    judge
        As for ``train``.
    """

    def __init__(
        self,
        network: nn.Module,
        data: TrainingData,
        recipe: Recipe,
        generator: torch.Generator,
        *,
        team: Team | None = None,
        judge: Callable[[nn.Module], float] | None = None,
    ) -> None:
        self.network, self.recipe, self.generator = network, recipe, generator
        self.team, self.judge = team, judge
        self.parameters = [each for each in network.parameters() if each.requires_grad]
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
        self.score = make_score(recipe)
        self.regularizer = make_regularizer(recipe, team)
        self.strengths = strengths(recipe, self.members, self.data.x)
        self.regularized = bool((self.strengths > 0).any())
        self.schedule = find_part(recipe.schedule, SCHEDULES, name="schedule")
        self.optimizer = _optimizer(self.parameters, recipe)
        self.adversarial = recipe.adversarial > 0
        self.reach = torch.zeros(())
        if self.adversarial:
            self.reach = recipe.adversarial * self.data.ranges()
        self.stopping = self._early_stopping()
        # Masks are drawn where the network is, orders on the CPU.
        seed = int(torch.randint(2**62, (), generator=generator))
        rank = 0 if team is None else team.rank  # other rows, other masks
        self.masks = torch.Generator(device).manual_seed(seed + rank)
        # What learns: in a team its gradients are those of all processes.
        self.learner = network
        if team is not None:
            self._check_alike(team)
            self.learner = team.wrapped(network, stacked=self.stacked)

    def _check_alike(self, team: Team) -> None:
        data, recipe = self.data, self.recipe
        tensors = [data.x, data.y, *data.rows, *(data.held_out or ())]
        if data.weights is not None:
            tensors.append(data.weights)
        shapes = [tuple(each.shape) for each in self.parameters]
        parts = [*plain(vars(recipe)), shapes, self.generator.get_state().tolist()]
        found = fingerprint_of(*(each.cpu().numpy() for each in tensors), *parts)
        what = "rows, recipe, network and generator"
        team.check_alike(found, name=what, device=data.x.device)

    def _early_stopping(self) -> EarlyStopping | None:
        held_out, patience = self.data.held_out, self.recipe.patience
        self.held_out = None if held_out is None else padded(held_out)
        self.floor = None if held_out is None else held_out_calibration_floor(held_out)
        if patience is None:
            return None
        if held_out is None and self.judge is None:
            raise InputError(
                f"early stopping (patience={patience}) looks at rows that are not "
                "learned from, and there are none. Give data.held_out, or set "
                "patience=None."
            )
        everything = [*self.network.parameters(), *self.network.buffers()]
        return EarlyStopping(
            self.parameters if self.stacked else everything,
            members=self.members,
            stacked=self.stacked,
            patience=patience,
        )

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
            loss, regularizer = (
                loss + share * values[0],
                regularizer + share * values[1],
            )
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
        """Take one step; return loss and regularizer, means over the members.

        Parameters
        ----------
        rows
            Numbers of each member's rows, shape ``(members, b)``.
        place
            What an error says of where it happened.
        """
        self.batch = rows.shape[1]
        if self.team is not None:
            rows = self.team.part(rows)
        x, y = self.data.batch(rows)
        self.optimizer.zero_grad(set_to_none=True)
        try:
            loss, regularizer = self._loss(x, y, rows)
        except ValueError as error:
            self._explain(error, place, x, y)
            raise
        # All processes see the same loss, and so diverge together.
        found = loss.detach() if self.team is None else self.team.mean(loss)
        value = float(found.sum())
        if not math.isfinite(value):
            raise self._diverged(place, ~torch.isfinite(found), x, y)
        total = loss.sum()
        if self.team is not None and not self.stacked:
            # The other processes wait for the gradient of every parameter.
            total = total + 0 * sum(each.sum() for each in self.parameters)
        with nullcontext() if self.team is None else collective("join gradients"):
            total.backward(inputs=self.parameters)  # not by the features
        self._clip()
        self.optimizer.step()
        if regularizer is None:
            return value / self.members, 0.0
        return value / self.members, float(regularizer.detach().mean())

    def _loss(self, x: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Loss of each member, shape ``(members,)``, and its regularizer if any."""
        law = self._law(x.requires_grad_(self.adversarial))
        score = self._mean_score(law, y, rows)
        loss, regularizer = score, None
        if self.regularized:
            regularizer = self.regularizer(law, y if self.stacked else y[0])
            loss = score + self.strengths * regularizer
        if self.adversarial:
            moved = self._moved(x, score)
            loss = (loss + self._mean_score(self._law(moved), y, rows)) / 2
        return loss, regularizer

    def _law(self, x: Tensor) -> AbstractDistribution:
        """Law of each member, ``(members, b)``, or of a plain module, ``(b,)``."""
        network = self.learner if torch.is_grad_enabled() else self.network
        if self.stacked:
            law: AbstractDistribution = network(x, generator=self.masks)
            return law
        law = as_distribution(network(x[0]))
        if tuple(law.batch_shape) != (x.shape[1],):
            raise InputError(
                "the network must return a law of batch shape (n,) for inputs (n, d), "
                f"got {tuple(law.batch_shape)} for n = {x.shape[1]}. "
                "squeeze(-1) its mean and spread."
            )
        return law

    def _mean_score(self, law: AbstractDistribution, y: Tensor, rows: Tensor) -> Tensor:
        """Weighted mean score of each member, shape ``(members,)``."""
        scores = self.score(law, y if self.stacked else y[0]).reshape(rows.shape)
        if self.weights is not None:
            # All of a member's have mean 1; those of a batch only in expectation.
            scores = self.weights.gather(1, rows) * scores
        if self.team is not None:  # the mean over processes is that over the batch
            return scores.sum(1) * (self.team.size / self.batch)
        return scores.mean(1)

    def _moved(self, x: Tensor, score: Tensor) -> Tensor:
        """Rows moved to where the score is worse (FGSM), without a gradient."""
        (slope,) = torch.autograd.grad(score.sum(), x, retain_graph=True)
        return torch.addcmul(x.detach(), self.reach, slope.sign_())

    def _clip(self) -> None:
        """Shorten each member's gradient; members must not feel each other."""
        longest = self.recipe.gradient_clip
        if longest is None:
            return
        gradients = [each.grad for each in self.parameters if each.grad is not None]
        squares = [each.reshape(self.members, -1).square().sum(1) for each in gradients]
        norms = torch.stack(squares).sum(0).sqrt()
        factor = (longest / norms.clamp_min(1e-30)).clamp_max(1)
        for each in gradients:
            axes = [1] * (each.ndim - 1)
            each.mul_(factor.view(-1, *axes) if self.stacked else factor[0])

    def _look(self, epoch: int) -> tuple[float | None, float | None]:
        """Score the held-out rows and keep the weights of members that improved."""
        if self.judge is not None:
            return self._judged(self.judge, epoch), None
        if self.held_out is None:
            return None, None
        rows, real = self.held_out
        scores, pits = [], []
        self._share_buffers()
        # What predicts by passes with dropout is judged by one of them.
        self.network.train(getattr(self.network, "passes", 1) > 1 and self.stacked)
        with torch.no_grad():
            for part in rows.split(_CHUNK, dim=1):
                place = f"the held-out rows after epoch {epoch}"
                found, pit = self._score_and_pit(part, place)
                scores.append(found)
                pits.append(pit)
        each = self._held_out_mean(torch.cat(scores, 1), rows, real)
        if self.team is not None:
            each = self.team.agreed(each)
        if self.stopping is not None:
            self.stopping.look(each, epoch)
        return float(each.mean()), held_out_calibration_error(torch.cat(pits, 1), real)

    def _held_out_mean(self, scores: Tensor, rows: Tensor, real: Tensor) -> Tensor:
        """Weighted mean of each member's real scores, shape ``(members,)``."""
        counts = real.to(scores.dtype)
        weights = counts
        if self.weights is not None:
            weights = counts * self.weights.gather(1, rows)
            # Held-out rows that all weigh nothing are better than none.
            weights = torch.where(weights.sum(1, keepdim=True) > 0, weights, counts)
        return (scores * weights).sum(1) / weights.sum(1)

    def _score_and_pit(self, rows: Tensor, place: str) -> tuple[Tensor, Tensor]:
        """Scores and PIT values of rows, each of shape ``(members, b)``."""
        x, y = self.data.batch(rows)
        try:
            law, target = self._law(x), y if self.stacked else y[0]
            found, pit = self.score(law, target), law.cdf(target)
        except ValueError as error:
            self._explain(error, place, x, y)
            raise
        found = found.reshape(rows.shape)
        lost = found.isnan()  # a target outside of a law's support scores infinity
        if lost.any():
            raise self._diverged(place, lost.any(1), x, y)
        return found, pit.reshape(rows.shape)

    def _judged(self, judge: Callable[[nn.Module], float], epoch: int) -> float:
        """One number for all members, who then all keep the weights of one epoch."""
        self._share_buffers()
        # What predicts by passes with dropout is judged by one of them.
        self.network.train(getattr(self.network, "passes", 1) > 1 and self.stacked)
        with torch.no_grad():
            value = torch.tensor(
                judge(self.network), dtype=torch.float64, device=self.data.x.device
            )
        if self.team is not None:
            value = self.team.agreed(value)
        if self.stopping is not None:
            self.stopping.look(value.expand(self.members), epoch)
        return float(value)

    def _share_buffers(self) -> None:
        if self.team is not None and not self.stacked:
            self.team.share_buffers(self.network)

    def ends(self, epoch: int, *, wished: bool) -> bool:
        """Tell whether it is wished, or no member has improved for too long."""
        ends = wished or (self.stopping is not None and self.stopping.exhausted(epoch))
        if self.team is None:
            return ends
        return bool(self.team.agreed(torch.tensor(ends, device=self.data.x.device)))

    def finish(self, epochs: int) -> list[int]:
        """Give the best weights back, and say from which epochs they are."""
        self.network.eval()
        self._share_buffers()
        if self.stopping is not None:
            return self.stopping.restore()
        # What the last step has done, no loss has shown.
        bad = is_spoiled(self.parameters, self.members)
        if bad.any():
            none = torch.zeros(self.members, 0, device=bad.device)
            raise self._diverged(
                f"epoch {epochs}, after its last step", bad, none, none
            )
        return [epochs] * self.members

    def _diverged(
        self, place: str, bad: Tensor | None, x: Tensor, y: Tensor
    ) -> DivergedError:
        inputs, weights = self._spoiled(x, y)
        text = diagnosis(
            place,
            inputs | weights if bad is None else bad,
            inputs=inputs,
            weights=weights,
            learning_rate=self.recipe.learning_rate,
        )
        return DivergedError(text)

    def _explain(self, error: ValueError, place: str, x: Tensor, y: Tensor) -> None:
        """Raise DivergedError if a law was refused because the training diverged."""
        inputs, weights = self._spoiled(x, y)
        if (inputs | weights).any() or speaks_of_nan(error):
            raise self._diverged(place, None, x, y) from error

    def _spoiled(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Tell which members' rows and weights are bad, each ``(members,)``."""
        inputs = is_spoiled([x, y], self.members)
        return inputs, is_spoiled(self.parameters, self.members, VAST)


def _optimizer(parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    kind: Any = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe.optimizer]
    optimizer: torch.optim.Optimizer = kind(
        parameters,
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    return optimizer
