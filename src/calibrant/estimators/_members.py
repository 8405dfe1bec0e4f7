"""Trained members, and the law that some of them predict together."""

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calibrant._checks import InputError, find_part
from calibrant.contracts import Head, TargetTransform
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution, pool, rescaled
from calibrant.distributions.derived import Transformed, Truncated
from calibrant.distributions.mixture import Mixture
from calibrant.distributions.normal import Gaussian
from calibrant.estimators._folds import Labels
from calibrant.estimators._standardize import BLOCK
from calibrant.learners import HEADS, NETWORKS
from calibrant.learners.mlp import MLPStack, PiecewiseLinear
from calibrant.learners.standardized import StandardizedInputs
from calibrant.transforms import TRANSFORMS

__all__ = [
    "FEWEST_POOLED",
    "Architecture",
    "Members",
    "conditioned",
    "pooled_normal",
    "pooled_variance",
    "usual_disagreement",
]

# Hidden numbers that are held at once in prediction.
_BLOCK = 2**22
# A new row may be this many standard deviations away; more would leave float32.
_FARTHEST = 1e12
# Encoded numbers of a row, and rows whose quantiles are the edges of the bins.
_MOST_ENCODED, _MOST_SORTED = 1024, 100_000
# Of the disagreement in the pooled variance: its weight, the members that its prior
# counts for, and the fewest that know of it.
_DISAGREEMENT, _PRIOR, FEWEST_POOLED = 3.0, 8.0, 4
# Of all members together; 8 GB, four times that with gradients and Adam's moments.
_MOST_WEIGHTS = 2**31

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Architecture:
    """What is trained: the network and what stands before and after it.

    Attributes
    ----------
    network
        A name from ``NETWORKS``, or a function of the number of features that makes a
        new module.
    options
        What a named network is made with: hidden, head, dropout, passes.
    pooling
        How members become one distribution: ``"mixture"``, ``"moment_matched"`` for the
        normal distribution of its moments, as in the paper, or ``"pooled"``, see
        :func:`pooled_normal`.
    transform
        Of the target, a name from ``TRANSFORMS`` or an object; None for none.
    clip_features
        Whether features far outside of those of the training are clipped.
    bins
        Of the piecewise-linear encoding of each feature; 0 for none.
    """

    network: str | Callable[[int], nn.Module]
    options: dict[str, Any] = field(default_factory=dict)
    pooling: str = "mixture"
    transform: str | TargetTransform | None = None
    clip_features: bool = True
    bins: int = 0

    @property
    def stacked(self) -> bool:
        """Whether all members are one network."""
        return isinstance(self.network, str)

    def head(self) -> Head:
        """Make the head of a named network."""
        head = self.options.get("head", "gaussian")
        if not isinstance(head, str):
            own: Head = head
            return own
        make: Any = find_part(head, HEADS, name="head")
        made: Head = make(floor=self.options.get("floor", 1e-3))
        return made

    def encoding(self, x: Tensor) -> PiecewiseLinear | None:
        """Learn the encoding of features ``(n, d)``; None for none.

        The first layer sees ``bins`` numbers of each feature, fewer in wide tables.
        """
        bins = min(self.bins, _MOST_ENCODED // x.shape[1])
        if not self.stacked or bins < 2:
            return None
        return PiecewiseLinear.of_rows(x[:: -(-len(x) // _MOST_SORTED)], bins)

    def build(
        self,
        features: int,
        members: int,
        generator: torch.Generator,
        *,
        encoding: PiecewiseLinear | None = None,
    ) -> list[nn.Module]:
        """Make untrained networks, float32: one stack, or a module for each member."""
        if isinstance(self.network, str):
            encoded = 0 if encoding is None else encoding.size
            self._check_size(features + encoded, members)
            options = {
                name: value
                for name, value in self.options.items()
                if name not in ("head", "floor")
            }
            make: Any = find_part(self.network, NETWORKS, name="network")
            stack: nn.Module = make(
                features,
                members=members,
                head=self.head(),
                encoding=encoding,
                generator=generator,
                **options,
            )
            return [stack.float()]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
            modules = [self.network(features) for _ in range(members)]
        if len({id(each) for each in modules}) < members:
            raise InputError(
                "network must make a new module at each call, got the same one twice."
            )
        return [StandardizedInputs(each, features).float() for each in modules]

    def _check_size(self, features: int, members: int) -> None:
        """Refuse stacks that no memory holds, before it is asked for."""
        sizes = [features, *self.options.get("hidden", ()), self.head().size]
        weights = members * sum(
            before * after for before, after in itertools.pairwise(sizes)
        )
        if weights > _MOST_WEIGHTS:
            raise InputError(
                f"members, folds and hidden must make at most {_MOST_WEIGHTS:,} "
                f"weights, got {weights:,}. Choose fewer or smaller networks."
            )

    def fitted_transform(self, y: Array) -> TargetTransform | None:
        """Learn the target's transform from these targets; None for none."""
        if self.transform is None:
            return None
        if isinstance(self.transform, str):
            make: Any = find_part(self.transform, TRANSFORMS, name="target_transform")
            made: TargetTransform = make()
        else:
            made = copy.deepcopy(self.transform)
        return made.fit(torch.from_numpy(y))


def conditioned(
    x: Array, inputs: tuple[Array, Array], limits: tuple[Array, Array] | None
) -> Tensor:
    """Bring features ``(n, d)`` to order 1, float32; see ``Members``."""
    center, scale = inputs
    ready = np.empty(x.shape, np.float32)
    with np.errstate(over="ignore"):
        for start in range(0, len(x), BLOCK):
            rows = slice(start, start + BLOCK)
            block = x[rows] if limits is None else x[rows].clip(*limits)
            # Halves, because the difference of two numbers of 1e308 is none.
            block = (block / 2 - center / 2) / (scale / 2)
            ready[rows] = block.clip(-_FARTHEST, _FARTHEST)
    return torch.from_numpy(ready)


class Members:
    """Trained networks, and what turns their outputs into laws in target units.

    Parameters
    ----------
    architecture
        What they are.
    networks
        One stack, or a module for each member.
    inputs
        Center and scale that bring features to order 1, each of shape ``(d,)``.
    targets
        Center and scale of each member's transformed targets, shape ``(members,)``.
    transform
        Of the targets, or None.
    bounds
        Where the law of some members together is cut, or None.
    limits
        Least and largest value of each feature, each of shape ``(d,)``; others are
        clipped. None for none.
    disagreement
        The usual one, see :func:`usual_disagreement`.
    """

    def __init__(
        self,
        architecture: Architecture,
        networks: Sequence[nn.Module],
        *,
        inputs: tuple[Array, Array],
        targets: tuple[Array, Array],
        transform: TargetTransform | None,
        bounds: tuple[float, float] | None = None,
        limits: tuple[Array, Array] | None = None,
        disagreement: float | None = None,
    ) -> None:
        self.architecture, self.networks = architecture, list(networks)
        self.inputs, self.transform, self.bounds = inputs, transform, bounds
        self.limits, self.disagreement = limits, disagreement
        self.target_center = torch.from_numpy(targets[0]).unsqueeze(1)
        self.target_scale = torch.from_numpy(targets[1]).unsqueeze(1)
        self._plain: MLPStack | None = None

    def __len__(self) -> int:
        return len(self.target_center)

    def with_networks(self, networks: Sequence[nn.Module]) -> "Members":
        """Return the same, with these networks: those of an earlier epoch."""
        result = copy.copy(self)
        result.networks, result._plain = list(networks), None
        return result

    def conditioned(self, x: Array) -> Tensor:
        """Bring features to order 1, float32, where the networks are."""
        device = next(self.networks[0].parameters()).device
        return conditioned(x, self.inputs, self.limits).to(device)

    def law(
        self,
        x: Array,
        members: Sequence[int] | None = None,
        *,
        masks: torch.Generator | None = None,
    ) -> AbstractDistribution:
        """Distribution of some members together, in target units, float64, on the CPU.

        Parameters
        ----------
        x
            Features, shape ``(n, d)``.
        members
            Which members; all if left out.
        masks
            Source of dropout masks that are drawn anew for each row and pass, on the
            network's device. None for those that the network keeps for all rows.
        """
        return self.pooled(self.each(x, members, masks=masks))

    def each(
        self,
        x: Array,
        members: Sequence[int] | None = None,
        *,
        masks: torch.Generator | None = None,
    ) -> list[AbstractDistribution]:
        """Distributions of the transformed target, before they are pooled.

        One for all members, batch shape ``(members * passes, n)``, or of modules of
        one's own one for each, ``(n,)``.
        """
        chosen = list(range(len(self)) if members is None else members)
        ready = self.conditioned(x)
        if self.architecture.stacked:
            return [self._stack_law(ready, chosen, masks)]
        return [self._module_law(ready, member) for member in chosen]

    def pooled(
        self, each: Sequence[AbstractDistribution], weights: Array | None = None
    ) -> AbstractDistribution:
        """Pool what :meth:`each` gave, undo the transform, and cut at the bounds.

        Parameters
        ----------
        each
            Distributions of the members.
        weights
            Of the members, shape ``(members, n)``; equal if left out.
        """
        shares = None if weights is None else torch.from_numpy(weights)
        if len(each) > 1:
            law: AbstractDistribution = Mixture(each, shares)
        elif not self.architecture.stacked:
            law = each[0]
        else:
            if shares is not None:
                passes = len(each[0]) // len(shares)
                shares = shares.repeat_interleave(passes, 0) / passes
            if self.architecture.pooling == "pooled" and isinstance(each[0], Gaussian):
                law = pooled_normal(each[0], shares, usual=self.disagreement)
            else:
                law = pool(each[0], shares)
        if self.architecture.pooling == "moment_matched":
            law = Gaussian(law.mean, law.stddev)
        if self.transform is not None:
            law = Transformed(law, self.transform)
        return law if self.bounds is None else Truncated(law, *self.bounds)

    def _stack_law(
        self, x: Tensor, members: list[int], masks: torch.Generator | None
    ) -> AbstractDistribution:
        network: Any = self.networks[0]
        passes = network.passes
        index = torch.tensor(members, device=x.device).repeat_interleave(passes)
        if masks is None:
            stack = self._passes()
            if members != list(range(len(self))):
                places = torch.arange(passes, device=x.device).repeat(len(members))
                stack = stack.select(index * passes + places)
            raw = _outputs(stack, x)
        else:
            raw = _outputs(network.stack.select(index, drops=True), x, masks)
        center, scale = (
            each[members].repeat_interleave(passes, 0)
            for each in (self.target_center, self.target_scale)
        )
        return rescaled(network.head(raw.double().cpu()), center, scale)

    def _passes(self) -> MLPStack:
        """Return all members under the masks of all passes, made once."""
        if self._plain is None:
            network: Any = self.networks[0]
            with torch.no_grad():
                self._plain = network.deterministic()
        return self._plain.eval()

    def _module_law(self, x: Tensor, member: int) -> AbstractDistribution:
        module = self.networks[member].eval()
        with torch.no_grad():
            law = as_distribution(module(x))
        return rescaled(law, self.target_center[member], self.target_scale[member])


def usual_disagreement(members: Gaussian, unseen: Labels) -> float | None:
    r"""Mean over rows of the variance between unseen members over their own.

    None for pools of fewer than four: they know too little of it.

    Parameters
    ----------
    members
        Batch shape ``(members, n)``.
    unseen
        Members that have not seen a row, shape ``(pool, n)``.

    Examples
    --------
    >>> members = Gaussian([[0.0], [0.0], [2.0], [2.0]], 1.0)
    >>> usual_disagreement(members, np.array([[0], [1], [2], [3]]))
    1.3333333333333333
    """
    if len(unseen) < FEWEST_POOLED:
        return None
    rows = np.arange(unseen.shape[1])
    between = members.mean[unseen, rows].var(0)
    return float((between / members.variance[unseen, rows].mean(0)).mean())


def pooled_normal(
    members: Gaussian, weights: Tensor | None = None, *, usual: float | None
) -> Gaussian:
    r"""Pool normal distributions over their first axis into one normal distribution.

    .. math::
        m = \frac1k \sum_i \mu_i, \qquad
        s^2 = w + 3 \, \frac{8 \rho w + (k - 1) b}{8 + k - 1}, \qquad
        w = \frac1k \sum_i \sigma_i^2, \qquad
        b = \frac1{k - 1} \sum_i (\mu_i - m)^2 .

    With the weight 1 and no prior it has the moments of the mixture. What members
    disagree about is harder than they say, so their disagreement b counts three times.
    A few members know it badly: it is moderated by the usual one, rho times w, as if 8
    more members had been asked (an empirical Bayes estimate of a variance, Smyth 2004).
    So the spreads of small and of large pools are alike. Both numbers are the best of
    a grid in likelihood and calibration after a map, on inner splits of four tables and
    on simulated ones. The size of s is the map's business.

    Parameters
    ----------
    members
        Batch shape ``(members, n)``.
    weights
        Shape ``(members, n)``, for each row equal or 0, sums of 1; equal if left out.
    usual
        rho, of :func:`usual_disagreement`; None for w alone.

    Examples
    --------
    >>> pooled = pooled_normal(Gaussian([[0.0], [2.0]], 1.0), usual=0.5)
    >>> pooled.mean.item(), round(pooled.variance.item(), 12)
    (1.0, 3.0)
    """
    means, variances = members.mean, members.variance
    if weights is None:
        mean, within = means.mean(0), variances.mean(0)
        between = (means - mean).square().sum(0)
        count: Tensor | float = len(means)
    else:
        mean, within = (weights * means).sum(0), (weights * variances).sum(0)
        count = 1 / weights.square().sum(0)
        between = count * (weights * (means - mean).square()).sum(0)
    return Gaussian(mean, pooled_variance(within, between, count, usual).sqrt())


def pooled_variance(
    within: Tensor, between: Tensor, count: Tensor | float, usual: float | None
) -> Tensor:
    """Variance of :func:`pooled_normal`, from the sum ``between`` of squares."""
    if usual is None:
        return within
    moderated = (_PRIOR * usual * within + between) / (_PRIOR + count - 1)
    return within + _DISAGREEMENT * moderated


def _outputs(
    stack: MLPStack, x: Tensor, masks: torch.Generator | None = None
) -> Tensor:
    """Outputs of all networks, ``(networks, n, size)``, in blocks of rows."""
    widest = max(bias.shape[-1] for bias in stack.biases)
    rows = max(64, _BLOCK // (stack.members * widest))
    with torch.no_grad():
        return torch.cat(
            [stack(part, generator=masks) for part in x.split(rows)], dim=1
        )
