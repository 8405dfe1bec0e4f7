"""What the processes of a distributed test do: ``rank_jobs.py SIZE FOLDER``.

Results go to ``FOLDER/RANK.safetensors`` and ``FOLDER/RANK.json``.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from calibrant import CalibratedRegressor
from calibrant.learners.mlp import DeepEnsemble
from calibrant.regularizers.conditional import ConditionalRegularizer
from calibrant.regularizers.module import QuantileRegularizer
from calibrant.training import EpochState, Recipe, TrainingData, train

__all__ = [
    "MAKERS",
    "estimator_predictions",
    "member_weights",
    "rows",
    "stepped",
]

# Rows of each process: uneven, and with four of them one has none.
SIZES = {2: [21, 12], 4: [7, 0, 3, 23]}
N = 33
STEPS = 5
#: For processes that wait for one that hangs.
SHORT = timedelta(seconds=3)
LONG = timedelta(seconds=300)

Maker = Callable[..., nn.Module]

MAKERS: dict[str, Maker] = {
    "default": QuantileRegularizer,
    "neural sort": lambda **more: QuantileRegularizer(sort="neural", **more),
    "kernel": lambda **more: QuantileRegularizer("kernel_calibration", **more),
    "memory": lambda **more: QuantileRegularizer(memory=20, **more),
    "conditional": lambda **more: ConditionalRegularizer(groups=2, **more),
}


def rows(n: int = N) -> tuple[Tensor, Tensor]:
    """Features ``(n, 3)`` and targets ``(n,)``."""
    source = torch.Generator().manual_seed(5)
    x = torch.randn(n, 3, generator=source)
    return x, x[:, 0] + 0.3 * torch.randn(n, generator=source)


def network() -> nn.Module:
    """A small network, always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def stepped(
    model: nn.Module,
    regularizer: nn.Module,
    batch: tuple[Tensor, Tensor],
    weight: float,
) -> dict[str, Tensor]:
    """Take some steps; return the first value, first gradient and last weights."""
    x, y = batch
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found: dict[str, Tensor] = {}
    for _ in range(STEPS):
        optimizer.zero_grad()
        mean, raw = model(x).unbind(-1)
        law = torch.distributions.Normal(mean, 0.1 + nn.functional.softplus(raw))
        value = regularizer(law, y)
        # Written as a sum: the mean of no rows is not a number.
        loss = -law.log_prob(y).sum() * weight + value
        loss.backward()
        if not found:
            found = {
                f"gradient {name}": each.grad.clone()
                for name, each in plain_parameters(model)
                if each.grad is not None
            }
            found["value"] = value.detach().clone()
        optimizer.step()
    for name, each in plain_parameters(model):
        found[f"weight {name}"] = each.detach().clone()
    return found


def plain_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Names without the prefix of a wrapper."""
    for name, each in model.named_parameters():
        yield name.removeprefix("module."), each


class Own(nn.Module):
    """A module with running statistics, and a parameter that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.layers(x).unbind(-1)
        return mean, 0.1 + nn.functional.softplus(raw)


class Faulty(Own):
    """Spoils what its own backward pass needs."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = super().forward(x)
        return mean.exp().add_(1), spread


def own_weights(module: nn.Module) -> dict[str, Tensor]:
    """Train a module of one's own; return all that it holds."""
    x, y = rows(48)
    everything = [torch.arange(48)]
    data = TrainingData(x=x, y=y[None], rows=everything, held_out=everything)
    source = torch.Generator().manual_seed(1)
    recipe = Recipe(epochs=3, batch_size=16, strength=1.0, patience=2)
    train(module, data, recipe, generator=source, distributed=True)
    return {name: each.detach().clone() for name, each in module.state_dict().items()}


def member_weights(*, seed: int = 1, **options: Any) -> dict[str, Tensor]:
    """Train an ensemble by the library's own loop, in batches that leave one row."""
    x, y = rows(49)
    source = torch.Generator().manual_seed(seed)
    stack = DeepEnsemble(3, members=2, hidden=(8,), generator=source).double()
    data = TrainingData(
        x=x,
        y=y.expand(2, -1),
        rows=[torch.arange(33), torch.arange(5, 38)],
        held_out=[torch.arange(38, 49)] * 2,
        weights=torch.linspace(0.5, 1.5, 49),
    )
    recipe = Recipe(
        strength=5.0,
        adversarial=0.01,
        epochs=6,
        batch_size=16,
        patience=3,
        gradient_clip=1.0,
    )
    history = train(stack, data, recipe, generator=source, **options)
    found = {name: each.detach().clone() for name, each in stack.named_parameters()}
    found["loss"] = torch.tensor(history.loss)
    found["epochs"] = torch.tensor(history.best_epoch)
    return found


def estimator_predictions(**options: Any) -> Tensor:
    """Fit the estimator; return means and 90 % intervals, shape ``(n, 3)``."""
    x, y = (each.numpy() for each in rows(60))
    x = np.asfortranarray(x)  # as those of a data frame
    model = CalibratedRegressor(
        members=1, folds=2, hidden=(8,), epochs=8, patience=4, **options
    )
    model.fit(x, y)
    interval = model.predict_interval(x, coverage=0.9)
    return torch.from_numpy(np.column_stack([model.predict(x), interval]))


# --- jobs ---------------------------------------------------------------------------


def equality(rank: int, size: int) -> dict[str, Tensor]:
    """Gradients, weights and predictions that must be those of one process."""
    start = sum(SIZES[size][:rank])
    part = slice(start, start + SIZES[size][rank])
    x, y = rows()
    tensors: dict[str, Tensor] = {}
    for name, make in MAKERS.items():
        wrapped = DistributedDataParallel(network())
        found = stepped(wrapped, make(), (x[part], y[part]), size / N)
        tensors |= {f"{name}: {key}": value for key, value in found.items()}
    alone = stepped(network(), MAKERS["default"](distributed=False), (x, y), 1 / N)
    tensors |= {f"alone: {key}": value for key, value in alone.items()}
    tensors |= {f"train: {k}": v for k, v in member_weights(distributed=True).items()}
    # Another seed in each process: the first one's counts.
    tensors["estimator"] = estimator_predictions(distributed=True, random_state=rank)
    tensors |= {f"own: {key}": value for key, value in own_weights(Own()).items()}
    return tensors


def refusals(rank: int) -> dict[str, str]:
    """What each process says of a batch that only one of them has wrong."""
    x, y = rows()
    texts: dict[str, str] = {}
    law = torch.distributions.Normal(x[:, 0], 1.0)
    bad = (x[:, 0] * torch.nan, torch.ones(N)) if rank == 1 else law
    with told(texts, "one bad batch"):
        QuantileRegularizer()(bad, y)
    stack = (x[:, 0].expand(rank + 1, -1), torch.ones(rank + 1, N))
    with told(texts, "another shape"):
        QuantileRegularizer()(stack, y)
    with told(texts, "no rows at all"):
        QuantileRegularizer()(torch.distributions.Normal(x[:0, 0], 1.0), y[:0])
    with told(texts, "columns"):
        column = torch.distributions.Normal(x[:, :1], 1.0)
        QuantileRegularizer()(column, y.unsqueeze(1))
    with told(texts, "second derivatives"):
        mean = x[:, 0].clone().requires_grad_()
        value = QuantileRegularizer("cramer_von_mises")((mean, torch.ones(N)), y)
        torch.autograd.grad(value, mean, create_graph=True)
    model = CalibratedRegressor(epochs=1, distributed=True)
    with told(texts, "other rows"):
        model.fit(x.numpy(), y.numpy() + rank)
    with told(texts, "other groups"):
        model.fit(x.numpy(), y.numpy(), groups=np.arange(N) // (4 + rank))
    with told(texts, "other settings"):
        model.set_params(learning_rate=1e-3 * (1 + rank)).fit(x.numpy(), y.numpy())
    with told(texts, "other generators"):
        member_weights(distributed=True, seed=rank)
    with told(texts, "own fault"):
        own_weights(Faulty())
    if rank == 0:  # alone: without gradients, and in evaluation mode
        with torch.no_grad():
            QuantileRegularizer()(law, y)
        QuantileRegularizer().eval()(law, y)
    return texts


def absence(rank: int) -> dict[str, str]:
    """All but the last process wait for it in vain."""
    x, y = rows()
    texts: dict[str, str] = {}
    group = distributed.new_group(timeout=LONG)  # all come, however late
    distributed.distributed_c10d._set_pg_timeout(SHORT, group)
    if rank < distributed.get_world_size() - 1:
        regularizer = QuantileRegularizer(process_group=group)
        with told(texts, "absence"):
            regularizer(torch.distributions.Normal(x[:, 0], 1.0), y)
    return texts


def death() -> dict[str, str]:
    """The first process is killed in the middle of a training."""

    def die(state: EpochState) -> None:
        if state.epoch == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    texts: dict[str, str] = {}
    with told(texts, "death"):
        member_weights(distributed=True, callbacks=[die])  # the first one's
    return texts


@contextmanager
def told(texts: dict[str, str], key: str) -> Iterator[None]:
    """Note the error that must come."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        texts[key] = f"{type(error).__name__}: {error}"


def work(rank: int, size: int, folder: Path) -> None:
    """Be one process of several; what is found is written before the next danger."""
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=size,
        timeout=LONG,
    )
    tensors = equality(rank, size)
    whole = {name: values.contiguous() for name, values in tensors.items()}
    save_file(whole, folder / f"{rank}.safetensors")
    texts = refusals(rank)
    texts |= absence(rank)
    distributed.barrier()
    texts |= death()
    (folder / f"{rank}.json").write_text(json.dumps(texts))


def main(size: int, folder: Path) -> None:
    """Start the processes and write their exit codes."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    children = []
    for rank in range(size):
        # Forks share the imports, which take longer than the jobs; nothing runs yet.
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(rank, size, folder)
                code = 0
            except BaseException:  # noqa: BLE001  (the parent's code must not run here)
                traceback.print_exc()
            finally:
                os._exit(code)  # what lost its others cannot say goodbye to them
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
    (folder / "codes.json").write_text(json.dumps(codes))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
