"""Networks inside the graph: from features to the laws of all members."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from calibrant._checks import UnsupportedError
from calibrant.estimator._members import Members
from calibrant.estimator.onnx._families import LAPLACE, NORMAL, Family
from calibrant.estimator.onnx._graph import Value
from calibrant.networks.heads import (
    GaussianHead,
    GaussianMixtureHead,
    LaplaceHead,
    StudentTHead,
)
from calibrant.networks.mlp import MLPStack

__all__ = ["Components", "Outputs", "outputs_of"]

Array = npt.NDArray[np.float64]

# As in the model: a new row may be this many standard deviations away.
_FARTHEST = 1e12
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Components:
    """Laws of one family and their weights, which sum to 1.

    Attributes
    ----------
    family
        Their family.
    count
        Number of them, J.
    location, scale
        Shape ``(J, n)``.
    weights
        Shape ``(J, n)``, or numbers ``(J, 1)``.
    """

    family: Family
    count: int
    location: Value
    scale: Value
    weights: Value | Array

    @property
    def mean(self) -> Value:
        """Mean of the mixture, shape ``(n,)``."""
        return (self.location * self.weights).sum(0)

    def second(self, center: Value) -> Value:
        """Second moment of the mixture around ``center`` ``(n,)``."""
        distance = self.location - center
        within = self.scale * self.scale * self.family.variance
        return ((within + distance * distance) * self.weights).sum(0)

    def matched(self) -> "Components":
        """Return the normal law with the mean and variance of the mixture."""
        mean = self.mean
        spread = self.second(mean).sqrt()
        one = np.ones((1, 1))
        return Components(NORMAL, 1, mean.expand(0), spread.expand(0), one)

    def stretched(self, factor: float) -> "Components":
        """Stretch the mixture around its mean."""
        mean = self.mean
        location = (self.location - mean) * factor + mean
        return Components(
            self.family, self.count, location, self.scale * factor, self.weights
        )


@dataclass(frozen=True)
class Outputs:
    """Outputs of all networks, ``(size, networks, n)``, and what they mean."""

    raw: Value
    members: Members
    head: Any
    passes: int

    def components(self, members: list[int]) -> Components:
        """Law of some members in units of their transformed targets."""
        index = np.array(members).repeat(self.passes) * self.passes
        index += np.tile(np.arange(self.passes), len(members))
        center, scale = (
            each[members].repeat_interleave(self.passes, 0).numpy()
            for each in (self.members.target_center, self.members.target_scale)
        )
        law = _HEADS[type(self.head)](self.raw.take(index, 1), self.head, len(index))
        blocks = law.count // len(index)
        center, scale = np.tile(center, (blocks, 1)), np.tile(scale, (blocks, 1))
        law = Components(
            law.family,
            law.count,
            law.location * scale + center,
            law.scale * scale,
            law.weights,
        )
        if self.members.architecture.moment_matched:
            return law.matched()
        if isinstance(self.head, StudentTHead):
            raise UnsupportedError(
                "the cdf of Student's t has no operations in ONNX. Use "
                'head="gaussian_mixture", or law="moment_matched", or save() and '
                "calibrant.load."
            )
        return law


def outputs_of(features: Value, members: Members) -> Outputs:
    """Run all networks on raw features ``(n, d)``, float64.

    Parameters
    ----------
    features
        As the model was fitted on.
    members
        The trained networks.
    """
    network: Any = members.networks[0]
    head = getattr(network, "head", None)
    if not members.architecture.stacked or type(head) not in _HEADS:
        raise UnsupportedError(
            "an ONNX file can hold the networks 'deep_ensemble' and 'mc_dropout' with "
            f"a head of calibrant, got network={members.architecture.network!r} with "
            f"head={head!r}. Export your own module with torch.onnx, or use save() "
            "and calibrant.load(folder, network=...)."
        )
    if members.limits is not None:
        low, high = members.limits
        features = features.graph.add("Max", features, low)
        features = features.graph.add("Min", features, high)
    center, scale = members.inputs
    ready = (features * 0.5 - center / 2) / (scale / 2)
    ready = ready.clip(-_FARTHEST, _FARTHEST).cast(np.float32)
    with torch.no_grad():
        stack: MLPStack = network.deterministic()
    raw = _forward(ready, stack).cast(np.float64)
    first = raw.graph.add("Transpose", raw, perm=[2, 0, 1])
    return Outputs(first, members, head, network.passes)


def _forward(x: Value, stack: MLPStack) -> Value:
    """All networks of a stack, ``(networks, n, size)``, float32."""
    graph = x.graph
    values = (x - _array(stack.center)) / _array(stack.scale)
    last = len(stack.weights) - 1
    for number, (weight, bias) in enumerate(
        zip(stack.weights, stack.biases, strict=True)
    ):
        values = graph.add("MatMul", values, _array(weight)) + _array(bias)
        if number < last:
            values = graph.add("Relu", values)
    return values


def _array(tensor: torch.Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    return array


def _softplus(raw: Value) -> Value:
    # ONNX Runtime has none in float64.
    return raw.clip(0.0) + ((-raw.abs()).exp() + 1.0).log()


def _spread(raw: Value, floor: float) -> Value:
    return (_softplus(raw) * (1 - floor) + floor).clip(_TINY)


def _equal(count: int) -> Array:
    return np.full((count, 1), 1 / count)


def _row(raw: Value, number: int) -> Value:
    return raw.take(np.array(number))


def _gaussian(raw: Value, head: GaussianHead, count: int) -> Components:
    spread = _spread(_row(raw, 1), head.floor)
    return Components(NORMAL, count, _row(raw, 0), spread, _equal(count))


def _laplace(raw: Value, head: LaplaceHead, count: int) -> Components:
    spread = _spread(_row(raw, 1), head.floor)
    return Components(LAPLACE, count, _row(raw, 0), spread, _equal(count))


def _student_t(raw: Value, head: StudentTHead, count: int) -> Components:
    """Normal laws with the moments of Student's t, for moment matching."""
    above = _softplus(_row(raw, 2) + head._START).clip(head._LEAST)
    wider = ((above + 2.0) / above).sqrt()
    spread = _spread(_row(raw, 1), head.floor) * wider
    return Components(NORMAL, count, _row(raw, 0), spread, _equal(count))


def _mixture(raw: Value, head: GaussianMixtureHead, count: int) -> Components:
    kinds = head.components
    means, spreads, weights = (
        raw.rows(part * kinds, (part + 1) * kinds) for part in range(3)
    )
    weights = weights.graph.add("Softmax", weights, axis=0) / count
    parts = (means, _spread(spreads, head.floor), weights)
    means, spreads, weights = (part.reshape(kinds * count, -1) for part in parts)
    return Components(NORMAL, kinds * count, means, spreads, weights)


_HEADS: dict[type, Any] = {
    GaussianHead: _gaussian,
    LaplaceHead: _laplace,
    StudentTHead: _student_t,
    GaussianMixtureHead: _mixture,
}
