"""A stack of independent multilayer perceptrons, trained side by side."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from calibrant._checks import InputError
from calibrant.learners._narrow import narrow_product
from calibrant.learners._thinning import (
    drop_threshold,
    kept_scale,
    relu,
    relu_and_drop,
)

__all__ = ["MLPStack", "PiecewiseLinear"]

# How far an encoded value may go beyond the outer bins, in widths of a bin.
_BEYOND = 2.0


class PiecewiseLinear(nn.Module):
    r"""Numeric features as their positions within bins.

    A feature with edges :math:`b_0 < \dots < b_T` becomes the T numbers

    .. math:: e_t = \operatorname{clip}\left(
        \frac{x - b_{t-1}}{b_t - b_{t-1}}, 0, 1\right) ,

    where the first goes on below its bin and the last above it, by two widths of the
    bin at most. A network bends at its kinks; so its first layer starts with kinks
    where the rows are. Beside them the network sees the feature itself.

    Parameters
    ----------
    edges
        For each feature its edges, ascending, shape ``(T + 1,)``; fewer than three for
        a feature that is not encoded.

    References
    ----------
    Gorishniy, Rubachev and Babenko (2022), *On Embeddings for Numerical Features in
    Tabular Deep Learning*, arXiv:2203.05556.

    Examples
    --------
    >>> encoding = PiecewiseLinear([torch.tensor([0.0, 1.0, 3.0])])
    >>> encoding(torch.tensor([[0.5], [2.0]])).tolist()
    [[0.5, 0.0], [1.0, 0.5]]
    """

    column: Tensor
    left: Tensor
    width: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, edges: Sequence[Tensor]) -> None:
        super().__init__()
        parts: list[list[Tensor]] = [[], [], [], [], []]
        for feature, own in enumerate(edges):
            bins = len(own) - 1
            if bins < 2:
                continue
            low, high = own.new_zeros(bins), own.new_ones(bins)
            low[0], high[-1] = -_BEYOND, 1 + _BEYOND
            column = torch.full((bins,), feature)
            for part, values in zip(
                parts, (column, own[:-1], own.diff(), low, high), strict=True
            ):
                part.append(values)
        names = ("column", "left", "width", "low", "high")
        for name, part in zip(names, parts, strict=True):
            nothing = torch.empty(0, dtype=torch.long if name == "column" else None)
            self.register_buffer(name, torch.cat(part) if part else nothing)

    @classmethod
    def of_rows(cls, x: Tensor, bins: int) -> "PiecewiseLinear":
        """Cut each feature of rows ``(n, d)`` at quantiles, into ``bins`` at most."""
        levels = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
        places = (levels * (len(x) - 1)).round().long()
        ordered = x.detach().sort(0).values[places]
        return cls([column.unique() for column in ordered.unbind(1)])

    @property
    def size(self) -> int:
        """Number of encoded values."""
        return len(self.column)

    def forward(self, x: Tensor) -> Tensor:
        """Encode features ``(..., d)`` as ``(..., size)``."""
        inside = (x.index_select(-1, self.column) - self.left) / self.width
        return torch.minimum(torch.maximum(inside, self.low), self.high)


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
    encoding
        What the first layer sees beside the standardized features; None for nothing.
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
        encoding: PiecewiseLinear | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.encoding = encoding
        encoded = 0 if encoding is None else encoding.size
        sizes = (features + encoded, *hidden, outputs)
        if min(features, *sizes[1:], members) < 1:
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
        if self.encoding is not None:
            beside = self.encoding(x).expand(*values.shape[:-1], -1)
            values = torch.cat([values, beside], -1)
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
            encoding=self.encoding,
            generator=torch.Generator(),
        )
        chosen = {
            name: values if name.startswith("encoding.") else values[members]
            for name, values in self.state_dict().items()
        }
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
