"""Trained members, and the law that some of them predict together."""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calibrant._checks import InputError, find_part
from calibrant.contracts import Head, TargetTransform
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.gaussian import Gaussian
from calibrant.distributions.mixture import Mixture
from calibrant.distributions.pooling import pool, rescaled
from calibrant.distributions.transformed import Transformed
from calibrant.distributions.truncated import Truncated
from calibrant.estimator._standardize import BLOCK
from calibrant.networks import HEADS, NETWORKS
from calibrant.networks.mlp import MLPStack
from calibrant.networks.standardized import StandardizedInputs
from calibrant.transforms import TRANSFORMS

__all__ = ["Architecture", "Members"]

# Hidden numbers that are held at once in prediction.
_BLOCK = 2**22
# A new row may be this many standard deviations away; more would leave float32.
_FARTHEST = 1e12
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
    moment_matched
        Replace a mixture by the normal law of its moments, as the paper does.
    transform
        Of the target, a name from ``TRANSFORMS`` or an object; None for none.
    clip_features
        Whether features far outside of those of the training are clipped.
    """

    network: str | Callable[[int], nn.Module]
    options: dict[str, Any] = field(default_factory=dict)
    moment_matched: bool = False
    transform: str | TargetTransform | None = None
    clip_features: bool = True

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

    def build(
        self, features: int, members: int, generator: torch.Generator
    ) -> list[nn.Module]:
        """Make untrained networks, float32: one stack, or a module for each member."""
        if isinstance(self.network, str):
            self._check_size(features, members)
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
    transforms
        Of each member's targets; members that share one hold the same object.
    bounds
        Where the law of some members together is cut, or None.
    limits
        Least and largest value of each feature, each of shape ``(d,)``; others are
        clipped. None for none.
    """

    def __init__(
        self,
        architecture: Architecture,
        networks: Sequence[nn.Module],
        *,
        inputs: tuple[Array, Array],
        targets: tuple[Array, Array],
        transforms: Sequence[TargetTransform | None],
        bounds: tuple[float, float] | None = None,
        limits: tuple[Array, Array] | None = None,
    ) -> None:
        self.architecture, self.networks = architecture, list(networks)
        self.inputs, self.transforms, self.bounds = inputs, list(transforms), bounds
        self.limits = limits
        self.target_center = torch.from_numpy(targets[0]).unsqueeze(1)
        self.target_scale = torch.from_numpy(targets[1]).unsqueeze(1)
        self._plain: MLPStack | None = None

    def with_networks(self, networks: Sequence[nn.Module]) -> "Members":
        """Return the same, with these networks: those of an earlier epoch."""
        result = copy.copy(self)
        result.networks, result._plain = list(networks), None
        return result

    def conditioned(self, x: Array) -> Tensor:
        """Bring features to order 1, float32, where the networks are."""
        center, scale = self.inputs
        device = next(self.networks[0].parameters()).device
        ready = np.empty(x.shape, np.float32)
        with np.errstate(over="ignore"):
            for start in range(0, len(x), BLOCK):
                rows = slice(start, start + BLOCK)
                # Halves, because the difference of two numbers of 1e308 is none.
                block = x[rows] if self.limits is None else x[rows].clip(*self.limits)
                block = (block / 2 - center / 2) / (scale / 2)
                ready[rows] = block.clip(-_FARTHEST, _FARTHEST)
        return torch.from_numpy(ready).to(device)

    def law(
        self,
        x: Array,
        members: Sequence[int],
        weights: Tensor | None = None,
        *,
        masks: torch.Generator | None = None,
    ) -> AbstractDistribution:
        """Mixture of some members' laws, in target units, float64, on the CPU.

        Parameters
        ----------
        x
            Features, shape ``(n, d)``.
        members
            Which members.
        weights
            Weights of the members, shape ``(k, n)``; equal if left out.
        masks
            Source of dropout masks that are drawn anew for each row and pass, on the
            network's device. None for those that the network keeps for all rows.
        """
        ready = self.conditioned(x)
        parts, shares = [], []
        for group, places in self._by_transform(members):
            part = None if weights is None else weights[places]
            share = len(places) / len(members) if part is None else part.sum(0)
            inner = self._pooled(ready, group, part, share, masks)
            transform = self.transforms[group[0]]
            parts.append(inner if transform is None else Transformed(inner, transform))
            shares.append(torch.as_tensor(share, dtype=torch.float64).expand(len(x)))
        law = parts[0] if len(parts) == 1 else Mixture(parts, torch.stack(shares))
        return law if self.bounds is None else Truncated(law, *self.bounds)

    def _by_transform(
        self, members: Sequence[int]
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Members that share a transform, and their places among those asked for."""
        groups: dict[int, list[int]] = {}
        for place, member in enumerate(members):
            groups.setdefault(id(self.transforms[member]), []).append(place)
        for places in groups.values():
            yield [members[place] for place in places], places

    def _pooled(
        self,
        x: Tensor,
        members: list[int],
        weights: Tensor | None,
        share: float | Tensor,
        masks: torch.Generator | None,
    ) -> AbstractDistribution:
        if weights is not None:
            weights = weights / torch.as_tensor(share).clamp_min(1e-300)
            # A row that none of these members is asked about: any weights will do.
            weights = torch.where(weights.sum(0) > 0, weights, 1 / len(members))
        law = (
            self._stack_law(x, members, weights, masks)
            if self.architecture.stacked
            else self._module_law(x, members, weights)
        )
        if self.architecture.moment_matched:
            law = Gaussian(law.mean, law.stddev)
        return law

    def _stack_law(
        self,
        x: Tensor,
        members: list[int],
        weights: Tensor | None,
        masks: torch.Generator | None,
    ) -> AbstractDistribution:
        network: Any = self.networks[0]
        passes = network.passes
        index = torch.tensor(members, device=x.device).repeat_interleave(passes)
        if masks is None:
            places = torch.arange(passes, device=x.device).repeat(len(members))
            raw = _outputs(self._passes().select(index * passes + places), x)
        else:
            raw = _outputs(network.stack.select(index, drops=True), x, masks)
        center, scale = (
            each[members].repeat_interleave(passes, 0)
            for each in (self.target_center, self.target_scale)
        )
        law = rescaled(network.head(raw.double().cpu()), center, scale)
        if weights is not None:
            weights = weights.repeat_interleave(passes, 0) / passes
        return pool(law, weights)

    def _passes(self) -> MLPStack:
        """Return all members under the masks of all passes, made once."""
        if self._plain is None:
            network: Any = self.networks[0]
            with torch.no_grad():
                self._plain = network.deterministic()
        return self._plain

    def _module_law(
        self, x: Tensor, members: list[int], weights: Tensor | None
    ) -> AbstractDistribution:
        laws = []
        for member in members:
            module = self.networks[member].eval()
            with torch.no_grad():
                law = as_distribution(module(x))
            laws.append(
                rescaled(law, self.target_center[member], self.target_scale[member])
            )
        if len(laws) == 1:
            return laws[0]
        return Mixture(laws, weights)


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
