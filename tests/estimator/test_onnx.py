"""ONNX files against the laws that they were written from, without and with torch."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError
from torch import nn

from calibrant import InputError, UnsupportedError, export_onnx
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimator import CalibratedRegressor
from calibrant.estimator.onnx import export as export_module
from calibrant.estimator.onnx._families import LAPLACE, NORMAL
from calibrant.estimator.onnx._graph import Graph, Value
from calibrant.estimator.onnx._transforms import curve_of
from calibrant.recalibration.empirical import EmpiricalRecalibrator
from calibrant.transforms import TRANSFORMS, from_functions
from last_line import assert_calibrated

Array = npt.NDArray[np.float64]

LEVELS = (0.01, 0.05, 0.5, 0.95, 0.999)
# Fresh rows are predicted all at once, and these are compared.
LOOKED_AT = 10
EXAMPLE = Path(__file__).parents[2] / "examples" / "predict_with_onnx.py"


def rows(n: int, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 3))
    noise = random.exponential(size=n) - 1
    return x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + (0.1 + 0.3 * np.abs(x[:, 2])) * noise


def fitted(y: Array | None = None, **changes: Any) -> CalibratedRegressor:
    settings: dict[str, Any] = {
        "members": 2,
        "folds": 2,
        "hidden": (16,),
        "epochs": 3,
        "patience": None,
        "random_state": 0,
    }
    x, target = rows(120)
    model = CalibratedRegressor(**(settings | changes))
    return model.fit(x, target if y is None else y)


def run(path: Path, x: Array) -> tuple[Array, Array, Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    mean, std, quantiles = session.run(["mean", "std", "quantiles"], {"features": x})
    return mean, std, quantiles


def integrated(law: AbstractDistribution) -> tuple[Array, Array]:
    """Mean and standard deviation from 20,000 values of both tails."""
    tail = torch.tensor(1e-15)
    low, middle, high = law.quantile(tail), law.quantile(0.5), law._upper_quantile(tail)
    place = torch.linspace(-4, 4, 20_001)[:, None]
    bent = place.sinh() / np.sinh(4)
    y = middle + bent * torch.where(place < 0, middle - low, high - middle)
    cdf = torch.cat([law.cdf(part) for part in y.split(2000)])
    survival = torch.cat([law.survival(part) for part in y.split(2000)])
    share = torch.where(cdf[1:] < 0.5, cdf.diff(dim=0), -survival.diff(dim=0))
    distance = (y[1:] + y[:-1]) / 2 - middle
    first, second = (share * distance).sum(0), (share * distance**2).sum(0)
    return (middle + first).numpy(), (second - first**2).sqrt().numpy()


def check(
    model: CalibratedRegressor, folder: Path, *, atol: float = 1e-4, count: int = 1000
) -> None:
    """Compare with the law itself, in predicted standard deviations."""
    x = rows(count, seed=1)[0]
    path = export_onnx(model, folder / "model.onnx", levels=LEVELS)
    mean, std, quantiles = run(path, x)
    assert mean.shape == std.shape == (count,)
    assert quantiles.shape == (count, len(LEVELS))
    assert {part.dtype for part in (mean, std, quantiles)} == {np.dtype(np.float64)}
    law = model.predict_distribution(x[:LOOKED_AT])
    true_mean, true_std = integrated(law)
    scale = true_std[:, None]
    wanted = model.predict_quantiles(x[:LOOKED_AT], LEVELS)
    assert np.abs((quantiles[:LOOKED_AT] - wanted) / scale).max() < 1e-4
    assert np.abs((mean[:LOOKED_AT] - true_mean) / true_std).max() < atol
    assert np.abs(std[:LOOKED_AT] / true_std - 1).max() < atol
    alone = run(path, x[:1])
    for one, all_of_them in zip(alone, (mean, std, quantiles), strict=True):
        np.testing.assert_allclose(one[0], all_of_them[0], atol=1e-5 * true_std[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "recalibrator", [None, "scale", "beta", "smooth", "empirical", "isotonic"]
)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"network": "mc_dropout", "passes": 3, "law": "moment_matched"},
        {"network": "mc_dropout", "passes": 3, "recalibrate_on": "held_out"},
        {"recalibrate_on": "out_of_bag", "members": 16},
        {"recalibrate_on": None, "members": 1},
    ],
    ids=["cross_fit", "moment_matched", "held_out", "out_of_bag", "none"],
)
def test_predicts_what_the_model_predicts(
    recalibrator: str | None, settings: dict[str, Any], tmp_path: Path
) -> None:
    check(fitted(recalibrator=recalibrator, **settings), tmp_path, atol=3e-4)


@pytest.mark.parametrize(
    ("transform", "recalibrator"),
    [
        ("identity", "beta"),
        ("log", None),
        ("log", "scale"),
        ("log", "beta"),
        ("box_cox", "empirical"),
        ("yeo_johnson", "smooth"),
        ("yeo_johnson", "empirical"),
    ],
)
def test_holds_the_transform_of_the_target(
    transform: str, recalibrator: str | None, tmp_path: Path
) -> None:
    y = 2 + rows(120)[1]
    y = y - min(0.0, y.min() - 0.5)
    model = fitted(y, recalibrator=recalibrator, target_transform=transform)
    check(model, tmp_path, atol=1e-3, count=50)


def test_holds_shares_between_two_bounds(tmp_path: Path) -> None:
    y = 1 / (1 + np.exp(-rows(120)[1]))
    check(fitted(y, target_transform="logit"), tmp_path, count=50)


def test_holds_members_with_transforms_of_their_own(tmp_path: Path) -> None:
    model = fitted(
        np.exp(rows(120)[1]),
        target_transform="yeo_johnson",
        recalibrate_on="out_of_bag",
        members=16,
    )
    assert len({id(each) for each in model.model_.members.transforms}) == 16
    check(model, tmp_path, atol=1e-3, count=50)


@pytest.mark.parametrize("recalibrator", [None, "beta", "empirical"])
@pytest.mark.parametrize("head", ["laplace", "gaussian_mixture"])
def test_holds_the_heads(recalibrator: str | None, head: str, tmp_path: Path) -> None:
    check(fitted(recalibrator=recalibrator, head=head), tmp_path, atol=1e-3, count=50)


@pytest.mark.parametrize(
    "settings",
    [{}, {"head": "laplace"}, {"target_transform": "log"}, {"bounds": (0.0, None)}],
    ids=["plain", "laplace", "log", "bounds"],
)
def test_holds_what_a_map_widens(settings: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(np.exp(0.3 * rows(120)[1]), recalibrator="beta", **settings)
    for recalibrator in model.model_.recalibrators:
        recalibrator._spread = 2.0  # type: ignore[union-attr]
    check(model, tmp_path, atol=2e-3, count=50)


@pytest.mark.parametrize(
    ("bounds", "recalibrator"),
    [
        ((-1.0, np.inf), None),
        ((-1.0, np.inf), "beta"),
        ((-np.inf, 4.0), "empirical"),
        ((-1.0, 4.0), "scale"),
        ((-1.0, 4.0), "smooth"),
    ],
)
def test_holds_bounds(
    bounds: tuple[float, float], recalibrator: str | None, tmp_path: Path
) -> None:
    y = rows(120)[1].clip(-0.9, 3.9)
    model = fitted(y, recalibrator=recalibrator, bounds=bounds)
    check(model, tmp_path, atol=1e-3, count=50)


def test_mass_on_a_bound_is_not_exported(tmp_path: Path) -> None:
    y = rows(120)[1].clip(0, None)
    with pytest.raises(UnsupportedError, match="targets stand on its bounds"):
        export_onnx(fitted(y, bounds=(0.0, np.inf)), tmp_path / "model.onnx")


def test_a_law_far_beyond_its_bounds_is_put_on_the_nearer_one(tmp_path: Path) -> None:
    model = fitted(rows(120)[1].clip(0, None) + 1e-3, bounds=(0.0, 1e6))
    model.model_.members.target_center.sub_(1e7)
    x = rows(5, seed=2)[0]
    mean, std, quantiles = run(export_onnx(model, tmp_path / "model.onnx"), x)
    np.testing.assert_array_equal(mean, 0)
    np.testing.assert_array_equal(std, 0)
    np.testing.assert_array_equal(quantiles, 0)


def test_student_t_needs_moment_matching(tmp_path: Path) -> None:
    check(fitted(head="student_t", law="moment_matched"), tmp_path, count=50)
    with pytest.raises(UnsupportedError, match=r"Student's t.*moment_matched"):
        export_onnx(fitted(head="student_t"), tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()


def test_large_features_and_targets_keep_their_digits(tmp_path: Path) -> None:
    x, y = rows(120)
    model = fitted().fit(1e9 + x, 1e9 + y)
    fresh = 1e9 + rows(20, seed=1)[0]
    mean, std, quantiles = run(export_onnx(model, tmp_path / "m.onnx"), fresh)
    wanted, spread = model.predict(fresh, return_std=True)
    assert np.abs((mean - wanted) / spread).max() < 1e-4
    assert np.abs(std / spread - 1).max() < 1e-4
    levels = (0.05, 0.5, 0.95)
    gap = quantiles - model.predict_quantiles(fresh, levels)
    assert np.abs(gap / spread[:, None]).max() < 1e-4


def test_a_row_with_a_gap_is_nan_and_disturbs_no_other(tmp_path: Path) -> None:
    path = export_onnx(fitted(recalibrator="empirical"), tmp_path / "model.onnx")
    x = rows(4, seed=1)[0]
    wanted = run(path, x)
    x[1, 0], x[2, 2] = np.nan, -np.inf
    for found, before in zip(run(path, x), wanted, strict=True):
        assert np.isnan(found[1:3]).all()
        np.testing.assert_array_equal(found[[0, 3]], before[[0, 3]])


def test_prediction_needs_numpy_and_onnxruntime_only(tmp_path: Path) -> None:
    model, x = fitted(), rows(7, seed=1)[0]
    path = export_onnx(model, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", x)
    program = f"""
import sys
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession({str(path)!r})
x = np.load({str(tmp_path / "x.npy")!r})
mean, std, quantiles = session.run(None, {{"features": x}})
assert not {{"torch", "calibrant", "sklearn"}} & set(sys.modules)
np.save({str(tmp_path / "q.npy")!r}, quantiles)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    wanted = model.predict_quantiles(x, (0.05, 0.5, 0.95))
    np.testing.assert_allclose(np.load(tmp_path / "q.npy"), wanted, atol=1e-5)


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    x, y = rows(120)
    frame = pd.DataFrame(x, columns=["rooms", "age", "distance"])
    model = fitted().fit(frame, y)
    path = export_onnx(model, tmp_path / "new" / "model.onnx", levels=[0.1, 0.9])
    assert path == tmp_path / "new" / "model.onnx"
    assert [each.name for each in path.parent.iterdir()] == ["model.onnx"]
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    facts = {each.key: each.value for each in proto.metadata_props}
    assert json.loads(facts["levels"]) == [0.1, 0.9]
    assert json.loads(facts["feature_names"]) == ["rooms", "age", "distance"]
    assert re.match(r"\d+\.\d+", facts["calibrant_version"])
    unnamed = onnx.load(export_onnx(fitted(), path))
    facts = {each.key: each.value for each in unnamed.metadata_props}
    assert json.loads(facts["feature_names"]) is None


def test_a_file_appears_complete_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = fitted(), tmp_path / "model.onnx"
    path.write_bytes(b"before")

    def fail(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"model\.onnx cannot be written: no space"):
        export_onnx(model, path)
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_without_onnx_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'calibrant\[onnx\]'"):
        export_onnx(fitted(), tmp_path / "model.onnx")


@pytest.mark.parametrize("levels", [(), (0.0, 0.5), (0.5, 1.0), [[0.5]], (np.nan,)])
def test_refuses_levels_without_a_finite_quantile(levels: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="levels must be at least one number strictly"):
        export_onnx(fitted(), tmp_path / "model.onnx", levels=levels)


class TwoNumbers(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 2)

    def forward(self, x: torch.Tensor) -> torch.distributions.Normal:
        mean, raw = self.linear(x).unbind(-1)
        return torch.distributions.Normal(mean, nn.functional.softplus(raw))


def test_refuses_what_a_file_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(UnsupportedError, match=r"takes a fitted CalibratedRegressor"):
        export_onnx(object(), path)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        export_onnx(CalibratedRegressor(), path)
    with pytest.raises(UnsupportedError, match=r"'deep_ensemble' and 'mc_dropout'"):
        export_onnx(fitted(network=TwoNumbers), path)
    own = from_functions(torch.asinh, torch.sinh, lambda y: -(y**2 + 1).log() / 2)
    with pytest.raises(UnsupportedError, match=r"target transforms identity, log"):
        export_onnx(fitted(target_transform=own), path)

    class Own(EmpiricalRecalibrator):
        unit_map = None  # type: ignore[assignment]

    model = fitted(recalibrator="empirical")
    model.model_ = type(model.model_)(
        model.model_.members, model.model_.units, (Own(), Own())
    )
    with pytest.raises(UnsupportedError, match=r"with a unit_map"):
        export_onnx(model, path)
    assert not path.exists()


def evaluated(function: Any, x: Array) -> Array:
    """Run a function of a value of the graph on numbers ``(n,)``."""
    graph = Graph()
    graph.named(function(Value(graph, "x")), "y")
    info = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["n"])
        for name in ("x", "y")
    ]
    written = graph.finished("test", info[:1], info[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(written, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    result: Array = session.run(None, {"x": x})[0]
    return result


def test_tails_keep_their_relative_precision() -> None:
    x = np.linspace(0, 37, 2001)
    np.testing.assert_allclose(evaluated(NORMAL.tail, x), ndtr(-x), rtol=3e-9)
    np.testing.assert_allclose(evaluated(LAPLACE.tail, x), np.exp(-x) / 2, rtol=1e-12)


@pytest.mark.parametrize("family", [NORMAL, LAPLACE], ids=["normal", "laplace"])
def test_rules_know_the_moments(family: Any) -> None:
    second = (family.weights * family.nodes**2).sum()
    fourth = (family.weights * family.nodes**4).sum()
    assert second == pytest.approx(family.variance, rel=1e-9)
    assert fourth == pytest.approx(3.0 if family is NORMAL else 24.0, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("log", {}),
        ("logit", {}),
        *(("box_cox", {"power": each}) for each in (-0.7, 0.0, 1e-12, 0.6, 2.0)),
        *(("yeo_johnson", {"power": each}) for each in (0.0, 1e-12, 0.6, 1.4, 2.0)),
    ],
)
def test_transforms_are_those_of_the_library(
    name: str, options: dict[str, float]
) -> None:
    y = np.linspace(0.05, 0.95, 40) if name == "logit" else np.linspace(0.1, 9, 40)
    transform: Any = TRANSFORMS[name](**options).fit(y)
    curve = curve_of(transform)
    assert curve is not None
    z = transform.forward(y).numpy()
    np.testing.assert_allclose(evaluated(curve.forward, y), z, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(evaluated(curve.inverse, z), y, rtol=1e-7)
    wide = np.linspace(2 * z.min() - 1, 2 * z.max() + 1, 40)
    wanted = transform.inverse(wide).numpy()
    np.testing.assert_allclose(evaluated(curve.inverse, wide), wanted, 1e-6, 1e-40)


def test_the_example_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert_calibrated(capsys.readouterr().out)
    assert (tmp_path / "model.onnx").exists()
