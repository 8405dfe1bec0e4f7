"""The training loop, for a stack of networks or any module that predicts a law."""

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import nn

from calibrant.training._team import join_team
from calibrant.training._trainer import Trainer
from calibrant.training.data import TrainingData
from calibrant.training.history import EpochState, History, InterruptedWarning
from calibrant.training.progress import epoch_bar, show_epoch
from calibrant.training.recipe import Recipe

__all__ = ["Callback", "train"]

Callback = Callable[[EpochState], bool | None]


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
    judge: Callable[[nn.Module], float] | None = None,
) -> History:
    """Train a network in place.

    Parameters
    ----------
    network
        A stack with ``members`` (``NETWORKS``), or any module that turns ``(n, d)``
        into a law of batch shape ``(n,)``; then the data must be for one member.
        It learns on the device that it is on.
    data
        Rows, and who learns from which.
    recipe
        How.
    generator
        Source of batch orders and dropout masks, on the CPU. With the same seed the
        result is the same bit for bit on the same machine. A module's own
        ``nn.Dropout`` is seeded from it too; the global state stays as it was.
    callbacks
        Called after each epoch; one that returns True ends the training.
    progress
        Show a progress bar; None shows one on a terminal only.
    title
        What the progress bar says.
    distributed
        Train with all processes that torchrun has started, each with its part of every
        batch (``DistributedDataParallel``). All must be given the same data, recipe and
        generator; the weights are those of one process alone, to rounding, but for
        dropout masks and batch normalization, which see a process's part. The first
        process alone shows progress and calls callbacks. If one ends, the others raise
        ``LostRankError``; Ctrl-C ends all of them without a result.
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
    >>> from calibrant.learners.deep_ensemble import DeepEnsemble
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
    history = History()
    device = trainer.data.x.device
    with (
        torch.enable_grad(),  # a caller may have switched it off
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        epoch_bar(recipe.epochs, shown=progress, title=title) as bar,
    ):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)) + rank)
        try:
            for epoch in range(1, recipe.epochs + 1):
                state = trainer.epoch(epoch)
                history.add(state)
                show_epoch(bar, state)
                wishes = [callback(state) for callback in callbacks]
                if trainer.ends(epoch, wished=any(wishes)):
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
