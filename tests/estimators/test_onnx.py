"""ONNX files against the models that they were written from, without and with torch."""

import copy
import json
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

import calibrant.estimators.onnx as export_module
from calibrant import InputError, UnsupportedError, export_onnx
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators import CalibratedRegressor
from calibrant.recalibration import RECALIBRATORS
from calibrant.recalibration.maps import EmpiricalRecalibrator
from calibrant.transforms import from_functions
from last_line import assert_calibrated

Array = npt.NDArray[np.float64]

LEVELS = (0.01, 0.05, 0.5, 0.95, 0.999)
EXAMPLE = Path(__file__).parents[2] / "examples" / "predict_with_onnx.py"


def rows(n: int, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 3))
    noise = random.exponential(size=n) - 1
    return x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + (0.1 + 0.3 * np.abs(x[:, 2])) * noise


def regressor(**changes: Any) -> CalibratedRegressor:
    settings: dict[str, Any] = {
        "learners": ("network",),
        "loss": "nll",
        "members": 2,
        "folds": 2,
        "hidden": (16,),
        "epochs": 3,
        "patience": None,
        "random_state": 0,
    }
    return CalibratedRegressor().set_params(**(settings | changes))


def positive(y: Array) -> Array:
    return np.exp(0.4 * y)


# For each model what becomes of the targets, and its settings.
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "pooled": (lambda y: y, {}),
    "one network": (lambda y: y, {"members": 1, "recalibrate_on": None, "bins": 0}),
    "mc dropout": (
        lambda y: y,
        {"network": "mc_dropout", "passes": 3, "distribution": "moment_matched"},
    ),
    "identity": (lambda y: y, {"target_transform": "identity"}),
    "log": (positive, {"target_transform": "log"}),
    "box_cox": (positive, {"target_transform": "box_cox"}),
    "yeo_johnson": (positive, {"target_transform": "yeo_johnson"}),
    "logit": (lambda y: 1 / (1 + np.exp(-y)), {"target_transform": "logit"}),
    "mass on bounds": (lambda y: y.clip(0, 1.5), {"bounds": (0.0, 1.5)}),
    "mass on one": (lambda y: y.clip(0, None), {"bounds": (0.0, np.inf)}),
}


@cache
def fitted(case: str = "pooled") -> CalibratedRegressor:
    change, settings = CASES[case]
    x, y = rows(120)
    return regressor(**settings).fit(x, change(y))


def recalibrated(case: str, name: str | None) -> CalibratedRegressor:
    """Return the model with another recalibrator, which all of its rows have taught."""
    model = copy.copy(fitted(case))
    fresh: Any = None
    if name is not None:
        x, y = rows(120)
        fresh = RECALIBRATORS[name.removeprefix("wide ")]()
        fresh.fit(model.model_.members.distribution(x), CASES[case][0](y))
        if name.startswith("wide "):
            fresh._spread = 2.0
    model.model_ = replace(model.model_, recalibrator=fresh)
    return model


def integrated(law: AbstractDistribution) -> tuple[Array, Array]:
    """Mean and standard deviation from 20,000 quantiles of both tails."""
    score = (torch.arange(10_000) + 0.5) / 10_000 * 8.5
    tail = torch.erfc(score / 2**0.5)[:, None].expand(-1, *law.batch_shape) / 2
    values = torch.cat([law.quantile(tail), law._upper_quantile(tail)]).double()
    share = (-score.square() / 2).exp()
    share = torch.cat([share, share])[:, None] / (2 * share.sum())
    mean = (share * values).sum(0)
    return mean.numpy(), (share * (values - mean).square()).sum(0).sqrt().numpy()


def agree(
    found: tuple[Array, Array, Array], model: CalibratedRegressor, x: Array
) -> None:
    """Compare with the distributions themselves, in predicted standard deviations."""
    mean, std, quantiles = found
    wanted_mean, wanted_std = integrated(model.predict_distribution(x))
    wanted = model.predict_quantiles(x, LEVELS)
    assert np.abs((quantiles - wanted) / wanted_std[:, None]).max() < 2e-5
    assert np.abs((mean - wanted_mean) / wanted_std).max() < 1e-4
    assert np.abs(std / wanted_std - 1).max() < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_the_exported_module_predicts_what_the_model_predicts(case: str) -> None:
    """For all recalibrators, and one whose predictions were widened."""
    x = rows(5, seed=1)[0]
    for name in (None, *RECALIBRATORS, "wide beta"):
        if name != "conformal_interval":
            model = recalibrated(case, name)
            module = export_module._Predictor(model.model_, np.array(LEVELS))
            with torch.no_grad():
                mean, std, quantiles = module(torch.from_numpy(x))
            agree((mean.numpy(), std.numpy(), quantiles.numpy()), model, x)


def run(path: Path, x: Array) -> tuple[Array, Array, Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    mean, std, quantiles = session.run(["mean", "std", "quantiles"], {"features": x})
    return mean, std, quantiles


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the plain model with named features, under the default type of torch."""
    folder = tmp_path_factory.mktemp("onnx") / "new"
    model = copy.copy(fitted())
    model.feature_names_in_ = np.array(["rooms", "age", "distance"])
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    path = export_onnx(model, folder / "model.onnx", levels=LEVELS)
    torch.set_default_dtype(before)
    return path


def test_the_file_predicts_what_the_model_predicts(written: Path) -> None:
    x = rows(300, seed=1)[0]
    found = run(written, x)
    mean, std, quantiles = found
    assert mean.shape == std.shape == (300,)
    assert quantiles.shape == (300, len(LEVELS))
    assert {part.dtype for part in found} == {np.dtype(np.float64)}
    agree((mean[:9], std[:9], quantiles[:9]), fitted(), x[:9])
    for alone, together in zip(run(written, x[:1]), found, strict=True):
        np.testing.assert_allclose(alone[0], together[0], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "recalibrator", "settings"),
    [
        (
            lambda y: 1e9 + y,
            "scale",
            {"target_transform": "yeo_johnson"},
        ),
        (
            lambda y: positive(y).clip(0.6, 1.7),
            "isotonic",
            {"target_transform": "log", "bounds": (0.6, 1.7), "network": "mc_dropout"},
        ),
        (
            lambda y: 1 / (1 + np.exp(-y)),
            "empirical",
            {
                "target_transform": "logit",
                "distribution": "moment_matched",
                "bins": 0,
            },
        ),
        (
            positive,
            "smooth",
            {"target_transform": "box_cox", "clip_features": False},
        ),
    ],
    ids=["far away", "mass on bounds", "logit", "box_cox"],
)
def test_files_hold_every_part(
    change: Any, recalibrator: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Of transforms and bounds, with features that need float64."""
    x, y = rows(120)
    model = regressor(recalibrator=recalibrator, **settings)
    model.fit(1e9 + x, change(y))
    path = export_onnx(model, tmp_path / "model.onnx", levels=LEVELS)
    fresh = 1e9 + rows(5, seed=1)[0]
    agree(run(path, fresh), model, fresh)
    facts = {fact.key: fact.value for fact in onnx.load(path).metadata_props}
    assert json.loads(facts["feature_names"]) is None


def test_a_row_with_a_gap_is_nan_and_disturbs_no_other(written: Path) -> None:
    x = rows(4, seed=1)[0]
    wanted = run(written, x)
    x[1, 0], x[2, 2] = np.nan, -np.inf
    for found, before in zip(run(written, x), wanted, strict=True):
        assert np.isnan(found[1:3]).all()
        np.testing.assert_array_equal(found[[0, 3]], before[[0, 3]])


def test_prediction_needs_numpy_and_onnxruntime_only(
    written: Path, tmp_path: Path
) -> None:
    x = rows(7, seed=1)[0]
    np.save(tmp_path / "x.npy", x)
    program = f"""
import sys
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession({str(written)!r})
x = np.load({str(tmp_path / "x.npy")!r})
mean, std, quantiles = session.run(None, {{"features": x}})
assert not {{"torch", "calibrant", "sklearn"}} & set(sys.modules)
np.save({str(tmp_path / "q.npy")!r}, quantiles)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    wanted = fitted().predict_quantiles(x, LEVELS)
    np.testing.assert_allclose(np.load(tmp_path / "q.npy"), wanted, atol=1e-5)


def test_the_file_says_what_it_is(written: Path) -> None:
    assert [file.name for file in written.parent.iterdir()] == ["model.onnx"]
    proto = onnx.load(written)
    onnx.checker.check_model(proto, full_check=True)
    facts = {fact.key: fact.value for fact in proto.metadata_props}
    assert json.loads(facts["levels"]) == list(LEVELS)
    assert json.loads(facts["feature_names"]) == ["rooms", "age", "distance"]
    assert re.match(r"\d+\.\d+", facts["calibrant_version"])
    assert b"site-packages" not in written.read_bytes()
    assert b".py" not in written.read_bytes()  # no paths of the machine that wrote it


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": TwoNumbers}, r"'deep_ensemble' and 'mc_dropout'"),
        ({"distribution": "mixture"}, r"distribution='mixture'"),
        ({"bounds": (-9.0, 9.0)}, r"bounds=\(-9\.0, 9\.0\)"),
        ({"head": "laplace"}, r"head='laplace'"),
        (
            {
                "target_transform": from_functions(
                    torch.asinh, torch.sinh, lambda y: -(y**2 + 1).log() / 2
                )
            },
            r"transforms and recalibrators by name",
        ),
        ({"learners": ("boosting",)}, r'boosted trees.*learners=\["network"\]'),
    ],
    ids=["network", "mixture", "bounds", "head", "transform", "trees"],
)
def test_refuses_models_that_a_file_cannot_hold(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    model = regressor(**settings).fit(*rows(120))
    with pytest.raises(UnsupportedError, match=message):
        export_onnx(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_refuses_what_is_no_fitted_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(UnsupportedError, match=r"takes a fitted CalibratedRegressor"):
        export_onnx(object(), path)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        export_onnx(CalibratedRegressor(), path)

    class Own(EmpiricalRecalibrator):
        unit_map = None  # type: ignore[assignment]

    model = copy.copy(fitted())
    model.model_ = replace(model.model_, recalibrator=Own())
    with pytest.raises(UnsupportedError, match=r"recalibrators by name"):
        export_onnx(model, path)
    assert not path.exists()


def test_the_example_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert_calibrated(capsys.readouterr().out)
    assert (tmp_path / "model.onnx").exists()
