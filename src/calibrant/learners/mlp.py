"""A stack of multilayer perceptrons, its heads, and the networks made of both.

A head reads the last layer's numbers as distributions, ``(..., size) -> (...)``, with
spreads of ``floor + (1 - floor) * softplus(raw)`` in units of the target's deviation.
The paper's floor is 0.1; one near 0 lets the data decide.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import pool
from calibrant.distributions.laplace import Laplace
from calibrant.distributions.mixture import GaussianMixture
from calibrant.distributions.normal import Gaussian
from calibrant.distributions.student_t import StudentT
from calibrant.protocols import Head
from calibrant.validation import InputError

# How far an encoded value may go beyond the outer bins, in widths of a bin.
_BEYOND = 2.0


class PiecewiseLinear(nn.Module):
    r"""Numeric features as their positions within bins.

    A feature with edges :math:`b_0 < \dots < b_T` becomes the T numbers

    .. math:: e_t = \operatorname{clip}\left(
        \frac{x - b_{t-1}}{b_t - b_{t-1}}, 0, 1\right) ,

    where the first goes on below its bin and the last above it, by two widths at most.

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
        parts = []
        for feature, own in enumerate(edges):
            bins = len(own) - 1 if len(own) > 2 else 0
            low, high = own.new_zeros(bins), own.new_ones(bins)
            low[:1], high[-1:] = -_BEYOND, 1 + _BEYOND
            column = torch.full((bins,), feature)
            parts.append((column, own[:bins], own.diff()[:bins], low, high))
        names = ("column", "left", "width", "low", "high")
        for name, values in zip(names, zip(*parts, strict=True), strict=True):
            self.register_buffer(name, torch.cat(values))

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

    One batched matrix product serves all members. A member's numbers depend on nothing
    of the others; each standardizes its inputs by its own center and scale.

    Parameters
    ----------
    features, outputs
        Number of inputs and of outputs.
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
        encoded = 0 if encoding is None else encoding.size
        sizes = (features + encoded, *hidden, outputs)
        if min(features, *sizes[1:], members) < 1:
            raise InputError(
                "features, outputs, members and each hidden layer must be at least 1, "
                f"got features={features}, hidden={tuple(hidden)}, members={members}."
            )
        if not 0 <= dropout < 1:
            raise InputError(
                f"dropout must lie in [0, 1), got {dropout}; the paper's is 0.25."
            )
        self.members, self.encoding = members, encoding
        # A unit is dropped if its random byte is below: rounded, not to all or nothing.
        self.threshold = min(255, max(1, round(dropout * 256))) if dropout else 0
        self.register_buffer("center", torch.zeros(members, 1, features))
        self.register_buffer("scale", torch.ones(members, 1, features))
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for rows, columns in pairwise(sizes):
            for parameters, shape in ((self.weights, rows), (self.biases, 1)):
                # Drawn as float32 whatever the default, so that a seed means the same.
                values = torch.rand(
                    (members, shape, columns), generator=generator, dtype=torch.float32
                )
                values = ((2 * values - 1) / math.sqrt(rows)).to(self.center.dtype)
                parameters.append(nn.Parameter(values))

    @property
    def factor(self) -> float:
        """What makes up for dropped units: one over the share that is kept."""
        return 256 / (256 - self.threshold)

    def standardize(self, center: Tensor, scale: Tensor) -> None:
        """Set by what inputs are standardized, both ``(members, features)``."""
        self.center.copy_(center.unsqueeze(1))
        self.scale.copy_(scale.unsqueeze(1))

    def forward(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Turn inputs into outputs, shape ``(members, n, outputs)``.

        ``x`` is ``(n, features)``, the same for all members, or ``(members, n,
        features)``; ``generator`` draws the dropout masks in training mode.
        """
        members, _, features = self.center.shape
        # A single column would otherwise be taken for every feature.
        fits = x.ndim == 2 or (x.ndim == 3 and x.shape[0] == members)
        if not fits or x.shape[-1] != features or x.dtype != self.center.dtype:
            raise InputError(
                f"x must have shape (n, {features}) or ({members}, n, {features}) and "
                f"the network's dtype {self.center.dtype}, got {tuple(x.shape)} and "
                f"{x.dtype}. Convert one of them: x.to(dtype) or network.to(dtype)."
            )
        drops = self.training and self.threshold > 0
        values = (x - self.center) / self.scale
        if self.encoding is not None:
            beside = self.encoding(x).expand(*values.shape[:-1], -1)
            values = torch.cat([values, beside], -1)
        *hidden, (last_weight, last_bias) = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            values = torch.baddbmm(bias, values, weight)
            kept = None
            if drops:
                drawn = random_bytes(values.shape, generator, values.device)
                kept = drawn >= self.threshold
            values = _Relu.apply(values, kept, self.factor)  # type: ignore[no-untyped-call]
        outputs: Tensor = _NarrowProduct.apply(last_bias, values, last_weight)  # type: ignore[no-untyped-call]
        return outputs

    def select(self, members: Tensor, *, drops: bool = False) -> "MLPStack":
        """Make a stack of members ``(k,)``, with dropout only if it ``drops``."""
        *hidden, outputs = [bias.shape[-1] for bias in self.biases]
        result = MLPStack(
            self.center.shape[-1],
            outputs,
            members=len(members),
            hidden=hidden,
            encoding=self.encoding,
            generator=torch.Generator(),  # nothing is drawn from the global one
        )
        chosen = {
            name: values if name.startswith("encoding.") else values[members]
            for name, values in self.state_dict().items()
        }
        result.load_state_dict(chosen, assign=True)
        result.threshold = self.threshold if drops else 0
        return result.train(drops)

    def thinned(self, masks: Sequence[Tensor]) -> "MLPStack":
        """Make the stack of all members under masks ``(members, passes, units)``.

        There is one for each hidden layer; a member's passes stand side by side.
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


def random_bytes(
    shape: Sequence[int], generator: torch.Generator | None, device: torch.device
) -> Tensor:
    """Uniform bytes, eight from each 64-bit number: an eighth of the draws."""
    count = math.prod(shape)
    words = torch.empty(-(-count // 8), dtype=torch.int64, device=device)
    # Without bounds the sign bit, and so every eighth byte's highest, would be 0.
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:count].view(*shape)


class _Relu(torch.autograd.Function):
    """ReLU and dropout, in place in both directions.

    Fresh memory would cost a third of the step of 25 networks. Both the values and
    their gradient must belong to nobody else, as those of the products around do.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, kept: Tensor | None, factor: float) -> Tensor:  # noqa: ANN401
        values.relu_()
        if kept is not None:
            values.mul_(kept).mul_(factor)  # masked_fill_ takes three times as long
        ctx.mark_dirty(values)
        ctx.save_for_backward(values)  # positive where a unit lives
        ctx.factor = 1 if kept is None else factor
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (values,) = ctx.saved_tensors
        torch.ops.aten.threshold_backward.grad_input(
            gradient, values, 0, grad_input=gradient
        )
        return gradient if ctx.factor == 1 else gradient.mul_(ctx.factor), None, None


class _NarrowProduct(torch.autograd.Function):
    r"""``torch.baddbmm(bias, values, weight)``, made for few outputs.

    Two of the three products of a step go faster with the outputs as rows:
    :math:`V W = V (W^\top)^\top` and :math:`V^\top G = (G^\top V)^\top`.
    """

    @staticmethod
    def forward(ctx: Any, bias: Tensor, values: Tensor, weight: Tensor) -> Tensor:  # noqa: ANN401
        rows = weight.mT.contiguous()
        ctx.save_for_backward(values, rows)
        return torch.baddbmm(bias, values, rows.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
        values, rows = ctx.saved_tensors
        by_weight = torch.bmm(gradient.mT, values).mT
        return gradient.sum(1, keepdim=True), torch.bmm(gradient, rows), by_weight


class StandardizedInputs(nn.Module):
    """Any module, whose inputs ``(n, features)`` are standardized first."""

    center: Tensor
    scale: Tensor

    def __init__(self, module: nn.Module, features: int) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("center", torch.zeros(1, features))
        self.register_buffer("scale", torch.ones(1, features))

    def standardize(self, center: Tensor, scale: Tensor) -> None:
        """Set what is subtracted and divided by, both ``(1, features)``."""
        self.center.copy_(center)
        self.scale.copy_(scale)

    def forward(self, x: Tensor) -> Any:  # noqa: ANN401  (what the module returns)
        """Pass standardized inputs to the module."""
        return self.module((x - self.center) / self.scale)


#: Softplus underflows to 0, where there is no density; the square of a distance in
#: units of this still fits into float32.
LEAST_SPREAD = 1e-12


class _Head:
    def __init__(self, *, floor: float = 1e-3) -> None:
        if not 0 <= floor < 1:
            raise InputError(
                f"floor must lie in [0, 1), got {floor}; the paper's is 0.1."
            )
        self.floor = float(floor)

    def _spread(self, raw: Tensor) -> Tensor:
        return (self.floor + (1 - self.floor) * softplus(raw)).clamp_min(LEAST_SPREAD)


class GaussianHead(_Head):
    """Two numbers as a normal distribution: its mean, and its spread.

    Examples
    --------
    >>> import torch
    >>> distribution = GaussianHead(floor=0.1)(torch.zeros(5, 2))
    >>> round(distribution.stddev[0].item(), 4)  # 0.1 + 0.9 log 2
    0.7238
    """

    size = 2

    def __call__(self, raw: Tensor) -> Gaussian:
        """Turn ``(..., 2)`` into distributions of batch shape ``(...)``."""
        mean, spread = raw.unbind(-1)
        return Gaussian(mean, self._spread(spread))


class LaplaceHead(_Head):
    """Two numbers as a Laplace distribution: its location, and its scale."""

    size = 2

    def __call__(self, raw: Tensor) -> Laplace:
        """Turn ``(..., 2)`` into distributions of batch shape ``(...)``."""
        location, scale = raw.unbind(-1)
        return Laplace(location, self._spread(scale))


class StudentTHead(_Head):
    """Three numbers as Student's t: location, scale, degrees of freedom above 2.

    Above 2, so that the variance exists; a new network starts near 7.
    """

    size = 3
    #: softplus(5) is 5.0067; networks start with outputs near 0.
    _START = 5.0
    #: In float32 2 + 1e-8 is 2, where the variance is infinite.
    _LEAST = 1e-3

    def __call__(self, raw: Tensor) -> StudentT:
        """Turn ``(..., 3)`` into distributions of batch shape ``(...)``."""
        location, scale, freedom = raw.unbind(-1)
        above = softplus(freedom + self._START).clamp_min(self._LEAST)
        return StudentT(2 + above, location, self._spread(scale))


class GaussianMixtureHead(_Head):
    """Three numbers for each component: its mean, its spread, its weight.

    Bishop (1994), *Mixture Density Networks*.
    """

    def __init__(self, *, floor: float = 1e-3, components: int = 3) -> None:
        super().__init__(floor=floor)
        if components < 1:
            raise InputError(f"components must be at least 1, got {components}.")
        self.components, self.size = components, 3 * components

    def __call__(self, raw: Tensor) -> GaussianMixture:
        """Turn ``(..., 3 * components)`` into distributions ``(...)``."""
        first = raw.movedim(-1, 0)
        means, spreads, weights = first.reshape(3, self.components, *raw.shape[:-1])
        return GaussianMixture(means, self._spread(spreads), weights.softmax(0))


class DeepEnsemble(nn.Module):
    """Deep ensemble: its prediction is the mixture of its members' distributions.

    The members differ by their initial weights and the order of their batches. For
    adversarial training see ``Recipe.adversarial``.

    Parameters
    ----------
    features, members, hidden, dropout, encoding, generator
        As for ``MLPStack``.
    head
        What turns outputs into a distribution.

    References
    ----------
    Lakshminarayanan, Pritzel and Blundell (2017), arXiv:1612.01474.

    Examples
    --------
    >>> network = DeepEnsemble(3, members=5)
    >>> network(torch.zeros(7, 3)).batch_shape
    torch.Size([5, 7])
    >>> network.predictive(torch.zeros(7, 3)).batch_shape
    torch.Size([7])
    """

    #: Passes of each member in prediction.
    passes = 1

    def __init__(
        self,
        features: int,
        *,
        members: int = 5,
        hidden: Sequence[int] = (128, 128),
        head: Head | None = None,
        encoding: PiecewiseLinear | None = None,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.members = members
        self.head: Head = GaussianHead() if head is None else head
        self.stack = MLPStack(
            features,
            self.head.size,
            members=members,
            hidden=hidden,
            dropout=dropout,
            encoding=encoding,
            generator=generator,
        )

    def forward(
        self, x: Tensor, *, generator: torch.Generator | None = None
    ) -> AbstractDistribution:
        """Distribution of each member, batch shape ``(members, n)``, for training.

        ``x`` is ``(n, features)``, or ``(members, n, features)`` with each one's own.
        """
        members: AbstractDistribution = self.head(self.stack(x, generator=generator))
        return members

    def deterministic(self) -> MLPStack:
        """Return the networks whose distributions are mixed in prediction."""
        return self.stack

    def predictive(self, x: Tensor) -> AbstractDistribution:
        """Mixture of the members' distributions for rows ``(n, features)``."""
        return pool(self.head(self.deterministic()(x)))


class MCDropout(DeepEnsemble):
    r"""Heteroscedastic Monte Carlo dropout: the mixture of T passes.

    .. math::
        \mu = \frac1T \sum_t \mu_t, \qquad
        \sigma^2 = \frac1T \sum_t \sigma_t^2 + \frac1T \sum_t (\mu_t - \mu)^2 .

    In training each row has masks of its own. In prediction the masks of each pass are
    drawn once, the same for all rows, so that a prediction depends on the row alone.

    Parameters
    ----------
    features, members, hidden, head, encoding, dropout
        As for ``DeepEnsemble``; each member has its own passes.
    passes
        T, passes of each network in prediction.
    generator
        Source of the initial weights and of the masks of the passes.

    References
    ----------
    Gal and Ghahramani (2016), arXiv:1506.02142; Kendall and Gal (2017),
    arXiv:1703.04977, for the heteroscedastic form.

    Examples
    --------
    >>> network = MCDropout(3, passes=10)
    >>> network(torch.zeros(7, 3)).batch_shape
    torch.Size([1, 7])
    >>> network.predictive(torch.zeros(7, 3)).means.shape
    torch.Size([10, 7])
    """

    def __init__(
        self,
        features: int,
        *,
        members: int = 1,
        hidden: Sequence[int] = (128, 128),
        head: Head | None = None,
        encoding: PiecewiseLinear | None = None,
        dropout: float = 0.25,
        passes: int = 10,
        generator: torch.Generator | None = None,
    ) -> None:
        if passes < 1 or not hidden:
            raise InputError(
                "mc_dropout needs at least one pass and one hidden layer, got "
                f"passes={passes} and hidden={tuple(hidden)}."
            )
        super().__init__(
            features,
            members=members,
            hidden=hidden,
            head=head,
            encoding=encoding,
            dropout=dropout,
            generator=generator,
        )
        self.passes = passes
        for layer, units in enumerate(hidden):
            drawn = random_bytes(
                (members, passes, units), generator, torch.device("cpu")
            )
            self.register_buffer(f"masks_{layer}", drawn >= self.stack.threshold)

    def deterministic(self) -> MLPStack:
        """Return the thinned networks whose distributions are mixed in prediction."""
        layers = range(len(self.stack.weights) - 1)
        return self.stack.thinned([self.get_buffer(f"masks_{i}") for i in layers])
