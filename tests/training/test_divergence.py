"""When a training goes wrong, it says where, who and why."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant import InputError
from calibrant.regularizers import REGULARIZERS
from calibrant.sorting import SORTERS
from calibrant.training import DivergedError
from small_training import ensemble, fit, problem


class Linear(nn.Module):
    """A line whose spread is made as a user might."""

    def __init__(self, spread: Any) -> None:
        super().__init__()
        self.line = nn.Linear(3, 2)
        self.spread = spread

    def forward(self, x: Tensor) -> Any:
        mean, raw = self.line(x).unbind(-1)
        return self.spread(mean, raw)


def damaged(members: int, row: int = 5, **kwargs: Any) -> Any:
    x = problem(members).x.clone()
    x[row, 1] = torch.nan
    return problem(members, x=x, **kwargs)


def test_names_epoch_step_member_and_cause() -> None:
    rows = [torch.arange(32), torch.arange(32), torch.arange(32, 64)]
    data = damaged(3, row=40, rows=rows)
    message = (
        r"the loss of member 3 of 3 is not finite in epoch 1, step [12]\. "
        r"Likely cause: the features or targets hold NaN or infinity; look for them"
    )
    with pytest.raises(DivergedError, match=message):
        fit(ensemble(3), data)


@pytest.mark.parametrize(
    "options",
    [
        *({"regularizer": name} for name in REGULARIZERS),
        *({"sort": name} for name in SORTERS),
        {"conditional": ("spread", "mean")},
    ],
    ids=str,
)
def test_no_regularizer_of_nan_fails_in_another_way(options: dict[str, Any]) -> None:
    with pytest.raises(DivergedError, match="the features or targets hold NaN"):
        fit(ensemble(2), damaged(2), strength=1.0, **options)


@pytest.mark.parametrize(
    "spread",
    [
        lambda mean, raw: (mean, raw.exp()),
        lambda mean, raw: torch.distributions.Normal(mean, raw.exp()),
        lambda mean, raw: (mean, raw.exp() + 1),
    ],
    ids=["pair", "torch", "infinite"],
)
def test_a_learning_rate_that_is_too_high(spread: Any) -> None:
    cause = r"the learning rate of 1e\+06 is too high for these data; lower it"
    with pytest.raises(DivergedError, match=rf"member 1 of 1 .* step \d\. .*{cause}"):
        fit(Linear(spread), problem(1), learning_rate=1e6)


def test_the_last_step_is_looked_at_as_well() -> None:
    network = ensemble(2).float()
    data = problem(2)
    data = problem(2, x=data.x.float(), y=data.y.float())

    def ruin(_: Any) -> None:
        with torch.no_grad():
            network.stack.weights[1][1] = torch.inf

    where = "member 2 of 2 is not finite in epoch 1, after its last step"
    with pytest.raises(DivergedError, match=where):
        fit(network, data, callbacks=[ruin], epochs=1)


def test_distributions_that_torch_refuses_because_of_nan() -> None:
    def normal(mean: torch.Tensor, raw: torch.Tensor) -> torch.distributions.Normal:
        # Said here, because the default can be changed for the whole process.
        return torch.distributions.Normal(mean, raw.exp(), validate_args=True)

    network = Linear(normal)
    with pytest.raises(DivergedError, match=r"epoch 1, step 1\..*hold NaN") as caught:
        fit(network, damaged(1), batch_size=64)
    assert isinstance(caught.value.__cause__, ValueError)


def test_other_errors_stay_as_they_are() -> None:
    network = Linear(lambda mean, raw: (mean, -raw.square() - 1))
    with pytest.raises(InputError, match="stddev must be above 0"):
        fit(network, problem(1))


@pytest.mark.parametrize("name", ["x", "y"])
def test_nan_in_held_out_rows(name: str) -> None:
    rows, held_out = [torch.arange(50)] * 2, [torch.arange(40, 50), torch.tensor([60])]
    data = problem(2)
    values = getattr(data, name).clone()
    values[60 if name == "x" else (1, 60)] = torch.nan
    data = problem(2, rows=rows, held_out=held_out, **{name: values})
    where = "member 2 of 2 is not finite in the held-out rows after epoch 1"
    with pytest.raises(DivergedError, match=where):
        fit(ensemble(2), data)


def test_infinite_members_that_add_up_to_nothing_known() -> None:
    """Finite losses whose sum overflows are nobody's in particular."""
    network = ensemble(2).float()
    data = problem(2)
    data = problem(2, x=data.x.float(), y=data.y.float())
    with pytest.raises(DivergedError, match="the loss of a member is not finite"):
        fit(
            network,
            data,
            score=lambda predictive, y: 2e38 + 0 * (predictive.mean - y),
            batch_size=1,
        )
