"""Write a fitted regressor as an ONNX file."""

import copy
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from calibrant._version import __version__
from calibrant.distributions.normal import (
    log_normal_cdf,
    log_normal_density,
    normal_cdf,
    normal_score,
)
from calibrant.estimators.networks import FARTHEST
from calibrant.estimators.pool import pooled_variance
from calibrant.estimators.regressor import CalibratedRegressor, Fitted
from calibrant.files import replace_file
from calibrant.learners.mlp import LEAST_SPREAD, GaussianHead
from calibrant.protocols import PitValues
from calibrant.recalibration.scale import ScaleRecalibrator
from calibrant.transforms import TRANSFORMS
from calibrant.validation import InputError, UnsupportedError

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["export_onnx"]

Array = npt.NDArray[np.float64]

# Cells of the rule for mean and std, more where bounds have mass of their own and the
# quantile function therefore kinks, and the points of each cell at export time.
_CELLS, _CELLS_IF_CENSORED, _POINTS = 128, 1024, 32
# The rule covers all levels but 1e-17 at either end.
_END = 8.5
# Farthest normal score.
_FARTHEST_SCORE = 37.0


def export_onnx(
    model: CalibratedRegressor,
    path: str | os.PathLike[str],
    *,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
) -> Path:
    r"""Write a fitted regressor as one ONNX file: prediction then needs no torch.

    It takes ``features`` ``(n, d)``, raw as for ``predict``, float64, any number
    of rows, and gives ``mean`` ``(n,)``, ``std`` ``(n,)`` and ``quantiles`` ``(n, k)``
    at the levels, float64. The networks' pool is a normal distribution of the
    transformed target, with location m and scale s:

    .. math:: Q(p \mid x) = T^{-1}\bigl(m(x) + s(x) \, \Phi^{-1}(R^{-1}(p))\bigr)

    with the target transform T and the recalibration map R, whose part is computed when
    the file is written. A row with a feature that is not finite gives NaN. The metadata
    are ``levels``, ``feature_names`` (JSON; null without), ``calibrant_version``.

    The networks run in float32 as in ``predict``, all else in float64. Outputs are
    within 1e-4 predicted standard deviations of the distribution's own. A row takes
    10 kB of memory, 40 kB where bounds have mass of their own.

    Parameters
    ----------
    model
        Fitted with ``learners=["network"]``, a named network, transform and
        recalibrator, ``head="gaussian"``, and a ``distribution`` other than
        ``"mixture"``. Bounds must have mass of their own (targets that stand on them)
        or be None.
    path
        Where; folders are made, and a file that is there is replaced. It appears only
        when it is complete.
    levels
        Of the quantiles, strictly between 0 and 1, at least one.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import onnxruntime, tempfile
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> model = CalibratedRegressor(
    ...     learners=["network"], epochs=2, folds=2, random_state=0
    ... ).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = export_onnx(model, folder + "/model.onnx", levels=(0.1, 0.9))
    ...     session = onnxruntime.InferenceSession(path)
    >>> mean, std, quantiles = session.run(None, {"features": X})
    >>> quantiles.shape
    (40, 2)
    """
    asked = np.asarray(levels, dtype=np.float64)
    if asked.ndim != 1 or len(asked) == 0 or not ((asked > 0) & (asked < 1)).all():
        raise InputError(
            "levels must be at least one number strictly between 0 and 1, shape (k,), "
            f"got {levels!r}."
        )
    given: object = model
    if not isinstance(given, CalibratedRegressor):
        raise UnsupportedError(
            "export_onnx takes a fitted CalibratedRegressor, of a pipeline the last "
            f"step, got {type(given).__name__}."
        )
    check_is_fitted(model, "model_")
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        raise ModuleNotFoundError(
            "export_onnx needs the packages onnx and onnxscript. Run: pip install "
            "'calibrant[onnx]'"
        )
    replace_file(Path(path), _proto(model, asked).SerializeToString())
    return Path(path)


def _check(fitted: Fitted) -> None:
    """Refuse what a file cannot hold."""
    blend, recalibrator = fitted.members, fitted.recalibrator
    members, transform = blend.networks, blend.transform
    if members is None or len(blend.families) > 1:
        raise UnsupportedError(
            "an ONNX file cannot hold boosted trees, which this model has. Fit it with "
            'learners=["network"], or use save() and calibrant.load.'
        )
    if fitted.values is not None:
        raise UnsupportedError(
            "an ONNX file cannot hold a distribution that is rounded to values, as of "
            "targets that take few. Fit it with options={'round_targets': False}."
        )
    architecture = members.architecture
    if not (
        architecture.stacked
        and type(getattr(members.networks[0], "head", None)) is GaussianHead
        and architecture.distribution != "mixture"
        and blend.bounds is None
        and (transform is None or type(transform) in TRANSFORMS.values())
        and (
            recalibrator is None
            or isinstance(recalibrator, ScaleRecalibrator)
            or getattr(recalibrator, "unit_map", None) is not None
        )
    ):
        raise UnsupportedError(
            "an ONNX file can hold 'deep_ensemble' and 'mc_dropout' with "
            "head='gaussian', distribution='pooled' or 'moment_matched', bounds on "
            "which targets stand, and transforms and recalibrators by name, got "
            f"network={architecture.network!r}, head={architecture.head!r}, "
            f"distribution={architecture.distribution!r}, bounds={blend.bounds}, "
            f"{transform!r}, {recalibrator!r}. Use save() and calibrant.load."
        )


class _Predictor(nn.Module):
    """Features ``(n, d)``, float64, to means, standard deviations and quantiles.

    All that belongs to a fixed level is a constant: the normal score, before the
    recalibration, of each quantile and of the nodes of mean and variance.
    """

    def __init__(self, fitted: Fitted, levels: Array) -> None:
        super().__init__()
        _check(fitted)
        members: Any = fitted.members.networks
        recalibrator: Any = fitted.recalibrator
        network: Any = members.networks[0]
        self.stack = copy.deepcopy(members.deterministic()).cpu()
        self.floor = network.head.floor
        self.pooled = members.architecture.distribution == "pooled"
        self.usual = members.disagreement
        self.transform = fitted.members.transform
        self.bounds = fitted.bounds
        # Factors on the whole distribution, and on the scale before the map.
        scaled = isinstance(recalibrator, ScaleRecalibrator)
        self.stretch = recalibrator.factor if scaled else 1.0
        self.spread = 1.0 if scaled else getattr(recalibrator, "spread", 1.0)
        unit_map: Any = getattr(recalibrator, "unit_map", None)

        def inverse(pit: PitValues) -> Tensor:
            """Normal scores before the map, of levels after it."""
            before = pit if unit_map is None else unit_map.inverse(pit)
            score = normal_score(before.cdf, before.survival)
            return score.clamp(-_FARTHEST_SCORE, _FARTHEST_SCORE)

        cells = _CELLS if fitted.bounds is None else _CELLS_IF_CENSORED
        nodes, self.weights = _rule(inverse, cells)
        self.count, level = len(levels), torch.tensor(levels)
        asked = inverse(_pit(normal_score(level, 1 - level)))
        self.scores = torch.cat([asked, nodes])
        limits = members.limits or (np.array(-np.inf), np.array(np.inf))
        self.low, self.high = map(torch.tensor, limits)
        self.center, self.scale = map(torch.tensor, members.inputs)
        self.target_center, self.target_scale = (
            values.repeat_interleave(network.passes, 0)
            for values in (members.target_center, members.target_scale)
        )

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with _ExactConstants():
            # What is not a number must not become one on its way.
            doubt = (features * 0).sum(1)
            location, scale = self._pooled(torch.where(features * 0 == 0, features, 0))
            values = location[:, None] + scale[:, None] * self.scores
            if self.transform is not None:
                values = self.transform._inverse(values)  # type: ignore[attr-defined]
            if self.stretch != 1:
                center = self._moments(values)[0][:, None]
                values = center + (values - center) * self.stretch
            if self.bounds is not None:
                values = values.clamp(*self.bounds)
            mean, variance = self._moments(values)
            quantiles = values[:, : self.count] + doubt[:, None]
            return mean + doubt, variance.sqrt() + doubt, quantiles

    def _pooled(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale of each row's normal distribution."""
        ready = torch.minimum(torch.maximum(features, self.low), self.high)
        ready = (ready / 2 - self.center / 2) / (self.scale / 2)
        raw = self.stack(ready.clamp(-FARTHEST, FARTHEST).float()).double()
        means = raw[..., 0] * self.target_scale + self.target_center
        spreads = raw[..., 1]
        # ONNX Runtime has no softplus in float64.
        spreads = spreads.clamp_min(0) + (1 + (-spreads.abs()).exp()).log()
        spreads = (self.floor + (1 - self.floor) * spreads).clamp_min(LEAST_SPREAD)
        variances = (spreads * self.target_scale).square()
        # Not by mean(), which the exporter would call "mean" as the output.
        location, within = means.sum(0) / len(means), variances.sum(0) / len(means)
        between = (means - location).square().sum(0)
        variance = within + between / len(means)
        if self.pooled:
            variance = pooled_variance(within, between, len(means), self.usual)
        return location, variance.sqrt() * self.spread

    def _moments(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each row, around its middle to keep the digits."""
        nodes = values[:, self.count :]
        middle = nodes[:, len(self.weights) // 4, None]
        first = ((nodes - middle) * self.weights).sum(1, keepdim=True)
        second = ((nodes - middle - first).square() * self.weights).sum(1)
        return (middle + first)[:, 0], second


class _ExactConstants(TorchFunctionMode):
    """Makes tensors of numbers, which the exporter would round to float32."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,  # noqa: ANN401
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        if func is not torch.tensor:
            args = [
                torch.tensor(value, dtype=torch.float64)
                if isinstance(value, float)
                else value
                for value in args
            ]
        return func(*args, **(kwargs or {}))


def _pit(scores: Tensor) -> PitValues:
    """Return the levels of normal scores."""
    both = (scores, -scores)
    return PitValues(*map(normal_cdf, both), *map(log_normal_cdf, both))


def _rule(inverse: Callable[[PitValues], Tensor], cells: int) -> tuple[Tensor, Tensor]:
    """Make scores and weights ``(2 * cells,)`` for integrals over all levels.

    Each cell becomes two points with its mass, and with mean and variance of its
    scores: the moments of a normal distribution are exact, whatever the map is.
    """
    places = torch.arange(cells * _POINTS, dtype=torch.float64)
    places = (places + 0.5) * (2 * _END / len(places)) - _END
    scores = inverse(_pit(places)).reshape(cells, _POINTS)
    shares = log_normal_density(places).exp().reshape(cells, _POINTS)
    mass = shares.sum(1, keepdim=True)
    mean = (shares * scores).sum(1, keepdim=True) / mass
    spread = ((shares * (scores - mean).square()).sum(1, keepdim=True) / mass).sqrt()
    weights = mass / (2 * mass.sum())
    nodes = torch.cat([mean - spread, mean + spread])
    return nodes[:, 0], torch.cat([weights, weights])[:, 0]


def _proto(model: CalibratedRegressor, levels: Array) -> "ModelProto":
    from onnx import checker, helper

    names = getattr(model, "feature_names_in_", None)
    example = torch.zeros(3, model.n_features_in_, dtype=torch.float64)
    with torch.no_grad(), _quiet_exporter():
        program: Any = torch.onnx.export(
            _Predictor(model.model_, levels).eval(),
            (example,),
            input_names=["features"],
            output_names=["mean", "std", "quantiles"],
            dynamic_shapes={"features": {0: torch.export.Dim("rows")}},
            dynamo=True,
            verbose=False,
        )
    proto: ModelProto = program.model_proto
    graph = proto.graph
    # Notes of the exporter, with paths of this machine.
    for part in (graph.input, graph.output, graph.value_info, graph.initializer):
        for value in part:
            del value.metadata_props[:]
    for node in graph.node:
        del node.metadata_props[:]
    facts = {
        "levels": json.dumps(levels.tolist()),
        "feature_names": json.dumps(None if names is None else [*map(str, names)]),
        "calibrant_version": __version__,
    }
    helper.set_model_props(proto, facts)
    checker.check_model(proto)
    return proto


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Keep from users what torch says about its own parts."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
