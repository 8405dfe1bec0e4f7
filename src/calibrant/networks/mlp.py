"""A stack of independent multilayer perceptrons, trained side by side."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from calibrant._checks import InputError
from calibrant.networks._narrow import narrow_product
from calibrant.networks._thinning import (
    drop_threshold,
    kept_scale,
    relu,
    relu_and_drop,
)

__all__ = ["MLPStack"]


class MLPStack(nn.Module):
    r"""Independent multilayer perceptrons of one shape, with a leading member axis.

    One batched matrix product serves all members, which small networks need: alone,
    each spends most of its time waiting for the next operation to start. A member's
    numbers depend on nothing of the others.

    Each member standardizes its inputs by its own center and scale, so that members
    may learn from different rows.

    Parameters
    ----------
    features
        Number of inputs.
    outputs
        Number of outputs.
    members
        Number of networks.
    hidden
        Units of each hidden layer, ReLU after each.
    dropout
        Share of hidden units that is left out in training mode, after each hidden
        layer; rounded to a multiple of 1/256.
    generator
        Source of the initial weights: PyTorch's own rule for ``nn.Linear``, uniform
        within :math:`\pm 1 / \sqrt{\text{inputs}}`.

    Examples
    --------
    >>> stack = MLPStack(3, 2, members=5)
    >>> stack(torch.zeros(7, 3)).shape  # the same rows for all members
    torch.Size([5, 7, 2])
    >>> stack(torch.zeros(5, 7, 3)).shape  # rows of its own for each
    torch.Size([5, 7, 2])
    """

    center: Tensor
    scale: Tensor

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        members: int = 1,
        hidden: Sequence[int] = (128, 128),
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes = (features, *hidden, outputs)
        if min(*sizes, members) < 1:
            raise InputError(
                "features, outputs, members and each hidden layer must be at least 1, "
                f"got features={features}, hidden={tuple(hidden)}, outputs={outputs}, "
                f"members={members}."
            )
        self.members, self.threshold = members, drop_threshold(dropout)
        self.register_buffer("center", torch.zeros(members, 1, features))
        self.register_buffer("scale", torch.ones(members, 1, features))
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for rows, columns in pairwise(sizes):
            for each, shape in ((self.weights, rows), (self.biases, 1)):
                # Drawn as float32 whatever the default, so that a seed means the same.
                values = torch.rand(
                    (members, shape, columns), generator=generator, dtype=torch.float32
                )
                values = ((2 * values - 1) / math.sqrt(rows)).to(self.center.dtype)
                each.append(nn.Parameter(values))

    @property
    def factor(self) -> float:
        """What makes up for dropped units: one over the share that is kept."""
        return kept_scale(self.threshold)

    def standardize(self, center: Tensor, scale: Tensor) -> None:
        """Set what each member takes from its inputs and divides them by.

        Both of shape ``(members, features)``.
        """
        self.center.copy_(center.unsqueeze(1))
        self.scale.copy_(scale.unsqueeze(1))

    def forward(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Turn ``(n, features)`` or ``(members, n, features)`` into outputs.

        Parameters
        ----------
        x
            Inputs, the same for all members or each member's own.
        generator
            Source of the dropout masks, used in training mode only.

        Returns
        -------
        Tensor
            Shape ``(members, n, outputs)``.
        """
        self._check_inputs(x)
        drops = self.training and self.threshold > 0
        values = (x - self.center) / self.scale
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            values = torch.baddbmm(bias, values, weight)
            if drops:
                values = relu_and_drop(values, self.threshold, generator)
            else:
                values = relu(values)
        weight, bias = last
        return narrow_product(bias, values, weight)

    def _check_inputs(self, x: Tensor) -> None:
        members, _, features = self.center.shape
        # A single column would otherwise be taken for every feature.
        fits = x.ndim == 2 or (x.ndim == 3 and x.shape[0] == members)
        if not fits or x.shape[-1] != features:
            raise InputError(
                f"x must have shape (n, {features}) or ({members}, n, {features}), "
                f"got {tuple(x.shape)}."
            )
        if x.dtype != self.center.dtype:
            raise InputError(
                f"x must have the network's dtype {self.center.dtype}, got {x.dtype}. "
                "Convert one of them: x.to(dtype) or network.to(dtype)."
            )

    def select(self, members: Tensor, *, drops: bool = False) -> "MLPStack":
        """Make a stack of some of the members, ``members`` (k,), for prediction.

        It has no dropout, or with ``drops`` that of the training.
        """
        *hidden, outputs = [bias.shape[-1] for bias in self.biases]
        features = self.center.shape[-1]
        # A generator of its own: nothing is drawn from the global one. (The meta device
        # would draw nothing at all, but its first use imports torch's compiler.)
        result = MLPStack(
            features,
            outputs,
            members=len(members),
            hidden=hidden,
            generator=torch.Generator(),
        )
        chosen = {name: values[members] for name, values in self.state_dict().items()}
        result.load_state_dict(chosen, assign=True)
        result.threshold = self.threshold if drops else 0
        return result.train(drops)

    def thinned(self, masks: Sequence[Tensor]) -> "MLPStack":
        """Make the stack of all members under all given dropout masks.

        A network with its units dropped is a smaller network: with the masks fixed, T
        passes of a member are T networks without dropout, and a prediction is one
        function of the features, however the rows are cut into chunks.

        Parameters
        ----------
        masks
            For each hidden layer the units that are kept, shape
            ``(members, passes, units)``.

        Returns
        -------
        MLPStack
            ``members * passes`` networks, the passes of a member side by side.
        """
        passes = masks[0].shape[1]
        members = torch.arange(self.members, device=self.center.device)
        result = self.select(members.repeat_interleave(passes))
        with torch.no_grad():
            for weight, mask in zip(result.weights[1:], masks, strict=True):
                # A mask times a number would take the default float type.
                kept = mask.reshape(-1, mask.shape[-1], 1).to(weight.dtype)
                weight.mul_(kept * self.factor)
        return result
