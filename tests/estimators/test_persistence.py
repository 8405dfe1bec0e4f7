"""A model that was read from its folder is the one that was written, or refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from calibrant._checks import InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators import CalibratedRegressor, load
from calibrant.estimators.persistence import described
from calibrant.learners.mlp import GaussianHead, GaussianMixtureHead
from calibrant.recalibration.maps import BetaRecalibrator
from calibrant.storage import StorageError, write_folder
from calibrant.transforms import LogitTransform, from_functions

Make = Callable[..., CalibratedRegressor]

Array = npt.NDArray[np.float64]

Rows = tuple[Array, Array]


@pytest.fixture(scope="module")
def shares() -> Rows:
    """40 rows with targets between 0 and 1."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (40, 2))
    return x, 1 / (1 + np.exp(-x[:, 0] - 0.3 * random.standard_normal(40)))


def same_laws(
    first: CalibratedRegressor, second: CalibratedRegressor, x: Array
) -> None:
    """Bit by bit."""
    for ask in (
        lambda law: law.quantiles([0.01, 0.5, 0.9]),
        lambda law: law.cdf(torch.linspace(0, 1, len(x))),
        lambda law: law.log_prob(torch.linspace(0.1, 0.9, len(x))),
    ):
        found = [ask(model.predict_distribution(x)) for model in (first, second)]
        assert torch.equal(*found)


SETTINGS: list[dict[str, Any]] = [
    {"network": "mc_dropout", "passes": 3},
    {"recalibrate_on": None},
    {"recalibrate_on": "train", "recalibrator": "isotonic"},
    {"recalibrate_on": "held_out", "recalibrator": "empirical"},
    {"recalibrator": "smooth"},
    {"recalibrator": "scale", "recalibrate_on": "held_out"},
    {"recalibrator": BetaRecalibrator()},
    {"members": 4, "folds": 3},  # their disagreement counts
    {"distribution": "mixture", "target_transform": "yeo_johnson"},
    {"bins": 0},
    {"bins": 3, "network": "mc_dropout", "passes": 2, "recalibrate_on": "held_out"},
    {"head": "laplace", "recalibrate_on": "held_out"},
    {"head": "student_t", "recalibrate_on": "held_out"},
    {"head": "gaussian_mixture"},
    {"head": GaussianMixtureHead(components=2, floor=0.05)},
    {"distribution": "moment_matched", "hidden": np.array([4, 6])},
    {"target_transform": "log"},
    {"target_transform": "box_cox"},
    {"target_transform": "logit"},
    {"target_transform": LogitTransform(low=-1, high=2)},
    {"bounds": (0.0, np.inf)},
    {"strength": "auto", "strength_grid": np.array([0.0, 2.0]), "patience": None},
    {"random_state": np.random.RandomState(0), "members": np.int64(1)},
    {"schedule": lambda _: 0.5},
]


@pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda each: "-".join(each) or "default"
)
def test_round_trip(
    settings: dict[str, Any], cheap: Make, shares: Rows, tmp_path: Path
) -> None:
    x, y = shares
    model = cheap(epochs=1, **({"members": 1} | settings)).fit(x, y)
    folder = model.save(tmp_path / "model")
    assert folder == tmp_path / "model"
    again = load(folder)
    same_laws(model, again, x)
    assert again.strength_ == model.strength_
    assert again.n_features_in_ == 2
    assert vars(again.history_[0]) == vars(model.history_[0])
    stacks: list[Any] = [
        m.model_.members.networks.networks[0].stack for m in (model, again)
    ]
    assert all((stack.encoding is None) == (model.bins == 0) for stack in stacks)
    # What was read can be written, read and fitted again.
    same_laws(model, load(again.save(tmp_path / "again")), x)
    again.set_params(epochs=1).fit(x, y)


def test_nothing_is_pickled(fitted: CalibratedRegressor, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "model")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["SHA256SUMS", "arrays.safetensors", "model.json"]
    for path in folder.iterdir():
        assert not path.read_bytes().startswith(b"\x80")  # a pickle's first byte
        assert b"PK\x03\x04" not in path.read_bytes()[:4]  # nor torch.save's
    stored = json.loads((folder / "model.json").read_text())
    assert stored["description"]["parameters"]["members"] == 2


def test_parameters_come_back(
    cheap: Make, shares: Rows, tmp_path: Path, fitted: CalibratedRegressor
) -> None:
    again = load(fitted.save(tmp_path / "model"))
    chosen = {"head": "gaussian"}  # by the number of rows
    assert again.get_params() == fitted.get_params() | chosen
    own = cheap(
        epochs=1,
        bounds=(-np.inf, 5.0),
        conditional=["spread"],
        head=GaussianHead(floor=0.2),
        schedule=lambda _: 0.5,
        recalibrator=BetaRecalibrator(),
    ).fit(*shares)
    again = load(own.save(tmp_path / "own"))
    assert again.bounds == (-np.inf, 5.0)
    assert again.options["conditional"] == ("spread",)
    assert again.head.floor == 0.2  # type: ignore[union-attr]
    # Objects that only a training needs have their defaults.
    assert again.settings()["schedule"] == "cosine"
    assert again.recalibrator == CalibratedRegressor().recalibrator


def test_feature_names_come_back(cheap: Make, shares: Rows, tmp_path: Path) -> None:
    frame = pd.DataFrame(shares[0], columns=["width", "height"])
    again = load(cheap(epochs=1).fit(frame, shares[1]).save(tmp_path / "model"))
    assert again.feature_names_in_.tolist() == ["width", "height"]
    with pytest.raises(ValueError, match="same order"):
        again.predict_interval(frame[["height", "width"]])


def test_the_path_comes_back(cheap: Make, shares: Rows, tmp_path: Path) -> None:
    model = cheap(strength="auto", strength_grid=(0.0, 1.0), epochs=1).fit(*shares)
    model.strength_path_.crps[1] = np.nan  # of a training that diverged
    model.history_[0].held_out_score[0] = np.inf
    again = load(model.save(tmp_path / "model"))
    for name, value in vars(model.strength_path_).items():
        np.testing.assert_array_equal(getattr(again.strength_path_, name), value)
    assert again.history_[0].held_out_score[0] == np.inf
    assert not hasattr(
        load(cheap(epochs=1).fit(*shares).save(tmp_path / "b")), "strength_path_"
    )


class Own(nn.Module):
    """A module of one's own, with a buffer."""

    def __init__(self, features: int, units: int = 4) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, units), nn.BatchNorm1d(units), nn.Linear(units, 2)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.layers(x).unbind(-1)
        return mean, nn.functional.softplus(spread) + 1e-3


class TestOwnParts:
    @pytest.fixture
    def folder(self, cheap: Make, shares: Rows, tmp_path: Path) -> Path:
        return cheap(network=Own, epochs=1).fit(*shares).save(tmp_path / "model")

    def test_a_network_is_handed_in(
        self, cheap: Make, shares: Rows, folder: Path
    ) -> None:
        model = cheap(network=Own, epochs=1).fit(*shares)
        same_laws(model, load(folder, network=Own), shares[0])

    def test_without_it(self, folder: Path) -> None:
        with pytest.raises(InputError, match=r"load\(folder, network=\.\.\.\)"):
            load(folder)

    def test_another_network(self, folder: Path) -> None:
        with pytest.raises(InputError, match=r"\(5,\), got .*\(4,\).*that you pass"):
            load(folder, network=lambda d: Own(d, units=5))

    def test_a_head(self, cheap: Make, shares: Rows, tmp_path: Path) -> None:
        class Head(GaussianHead):
            pass

        model = cheap(head=Head(), epochs=1).fit(*shares)
        folder = model.save(tmp_path / "head")
        with pytest.raises(InputError, match=r"load\(folder, head="):
            load(folder)
        same_laws(model, load(folder, head=Head()), shares[0])

    def test_a_transform_of_functions(
        self, cheap: Make, shares: Rows, tmp_path: Path
    ) -> None:
        cube = from_functions(
            torch.asinh, torch.sinh, lambda y: -torch.hypot(y, torch.ones_like(y)).log()
        )
        model = cheap(target_transform=cube, epochs=1).fit(*shares)
        with pytest.raises(InputError, match="functions cannot be stored"):
            model.save(tmp_path / "cube")
        assert not (tmp_path / "cube").exists()

    def test_a_recalibrator_without_text(
        self, cheap: Make, shares: Rows, tmp_path: Path
    ) -> None:
        class Nothing:
            def fit(self, *_: object) -> "Nothing":
                return self

            def transform(self, law: AbstractDistribution) -> AbstractDistribution:
                return law

        model = cheap(recalibrator=Nothing(), epochs=1).fit(*shares)
        with pytest.raises(InputError, match=r"Nothing cannot be stored.*to_json"):
            model.save(tmp_path / "model")


class TestFolders:
    def test_a_folder_of_another_kind(self, tmp_path: Path) -> None:
        folder = write_folder(
            tmp_path / "model", arrays={}, description={}, kind="TableModel"
        )
        with pytest.raises(StorageError, match=r"calibrant\.TableModel\.load\(folder"):
            load(folder)


Change = Callable[[dict[str, Any]], object]


def forge_map(state: dict[str, Any], **values: object) -> None:
    """Change the state of a stored map."""
    content = json.loads(state["recalibrator"])
    content["state"].update(values)
    state["recalibrator"] = json.dumps(content)


CHANGES: dict[str, tuple[Change, str]] = {
    "no-parameters": (lambda s: s.pop("parameters"), "'parameters'"),
    "unknown-parameter": (
        lambda s: s["parameters"].update(surprise=1),
        "'parameters'",
    ),
    "vast-features": (lambda s: s.update(features=10**12), "'arrays'.*shape"),
    "vast-layer": (lambda s: s["parameters"].update(hidden=[10**9, 10**9]), "was ch"),
    "vast-members": (lambda s: s.update(networks=100_000), "'arrays'.*shape"),
    "no-networks": (lambda s: s.update(networks=0), "'arrays'.*'shares' are of"),
    "truth-for-a-number": (lambda s: s.update(networks=True), "'networks'"),
    "no-list-of-it": (lambda s: s.update(disagreement=0.1), "'disagreement'"),
    "negative-disagreement": (lambda s: s.update(disagreement=[-1.0]), "'disagreeme"),
    "endless-disagreement": (lambda s: s.update(disagreement=["inf"]), "'disagreeme"),
    "vast-disagreement": (lambda s: s.update(disagreement=[1e308]), "'disagreement'"),
    "shares-of-more": (lambda s: s.update(shares=[1.0, 1.0]), "'shares'"),
    "factors-of-nothing": (lambda s: s.update(factors=[0.0]), "'factors'"),
    "bounds-of-one": (lambda s: s.update(bounds=5), "'bounds'"),
    "bounds-of-three": (lambda s: s.update(bounds=[1, 2, 3]), "'bounds'"),
    "bounds-of-text": (lambda s: s.update(bounds=["0", "1"]), "'bounds'"),
    "bounds-upside-down": (lambda s: s.update(bounds=[1.0, 0.0]), "'bounds'"),
    "cut-first-of-seven": (lambda s: s.update(cut_first=7), "'cut_first'"),
    "cut-first-at-nothing": (lambda s: s.update(cut_first=True), "'cut_first'"),
    "too-few-names": (lambda s: s.update(feature_names=["a"]), "'feature_names'"),
    "names-of-numbers": (lambda s: s.update(feature_names=[1, 2]), "'feature_names'"),
    "names-of-text": (lambda s: s.update(feature_names="ab"), "'feature_names'"),
    "strength-of-text": (lambda s: s.update(strength="x"), "'strength'"),
    "no-strength": (lambda s: s.update(strength=None), "'strength'"),
    "empty-history": (lambda s: s.update(history=[{}]), "'history'"),
    "history-of-text": (
        lambda s: s["history"][0].update(loss=["one"]),
        "'history'",
    ),
    "history-of-a-number": (lambda s: s.update(history=3), "'history'"),
    "half-a-path": (lambda s: s.update(strength_path={"crps": [1]}), "'strength_path'"),
    "no-map": (lambda s: s.update(recalibrator=None), "'recalibrator'"),
    "map-of-a-number": (lambda s: s.update(recalibrator=3), "'recalibrator'"),
    "map-with-vast-upper": (lambda s: forge_map(s, upper=1e300), "'recalibrator'"),
    "map-with-vast-lower": (lambda s: forge_map(s, lower=1e300), "'recalibrator'"),
    "map-with-vast-shift": (lambda s: forge_map(s, shift=1e300), "'recalibrator'"),
    "map-of-text": (lambda s: forge_map(s, shift="x"), "'recalibrator'"),
    "map-of-no-number": (lambda s: forge_map(s, shift="nan"), "'recalibrator'"),
    "transform-of-a-number": (lambda s: s.update(transform=3), "'transform'"),
    "no-such-distribution": (
        lambda s: s["parameters"].update(distribution=[]),
        "'parameters'.*distribution must",
    ),
    "parameter-of-text": (lambda s: s["parameters"].update(strength="x"), "'parameter"),
    "no-such-optimizer": (lambda s: s["parameters"].update(optimizer=1), "'parameter"),
    "no-such-design": (
        lambda s: s["parameters"].update(recalibrate_on="x"),
        "'parameters'.*recalibrate_on must",
    ),
    "members-of-text": (lambda s: s["parameters"].update(members="2"), "'parameters'"),
    "head-of-nothing": (lambda s: s["parameters"].update(head={}), "'parameters'"),
    "parameters-of-a-list": (lambda s: s.update(parameters=[1]), "'parameters'"),
    "vast-passes": (
        lambda s: s["parameters"].update(network="mc_dropout", passes=10**12),
        "was changed",
    ),
    "vast-head": (
        lambda s: s["parameters"].update(
            head={"head": "gaussian_mixture", "options": {"components": 10**12}}
        ),
        "was changed",
    ),
    "text-for-a-number": (lambda s: s.update(features="4"), "'features'"),
    "another-network": (
        lambda s: s["parameters"].update(network="../../etc/passwd"),
        "no network is called",
    ),
    "no-such-transform": (
        lambda s: s.update(transform='{"name": "os.system"}'),
        "what a transform's",
    ),
    "a-recalibrator-of-its-own": (
        lambda s: s.update(recalibrator='{"name": "os.system"}'),
        "what a recalibrator's",
    ),
}

WEIGHTS = "networks.0.stack.weights.0"

ENCODING = "networks.0.stack.encoding."

ARRAYS: dict[str, tuple[Change, str]] = {
    "no-columns": (lambda a: a.pop(f"{ENCODING}column"), "one of its 2 features"),
    "no-bins": (
        lambda a: a.update({n: v[:0] for n, v in a.items() if n.startswith(ENCODING)}),
        "one of its 2 features",
    ),
    "columns-of-nothing": (
        lambda a: a.update({f"{ENCODING}column": a[f"{ENCODING}column"] + 1}),
        "one of its 2 features",
    ),
    "columns-before-the-first": (
        lambda a: a.update({f"{ENCODING}column": a[f"{ENCODING}column"] - 1}),
        "one of its 2 features",
    ),
    "columns-that-are-none": (
        lambda a: a.update({f"{ENCODING}column": a[f"{ENCODING}column"] / 1}),
        "one of its 2 features",
    ),
    "a-part-of-its-own": (
        lambda a: a.update({f"{ENCODING}forward": torch.zeros(3)}),
        "forward. must be nothing",
    ),
    "bins-without-edges": (lambda a: a.pop(f"{ENCODING}left"), "encoding.left"),
    "bins-with-fewer-edges": (
        lambda a: a.update({f"{ENCODING}left": a[f"{ENCODING}left"][:-1]}),
        "encoding.left",
    ),
    "weights-of-whole-numbers": (
        lambda a: a.update({WEIGHTS: a[WEIGHTS].int()}),
        "stack.weights.0",
    ),
    "weights-of-another-shape": (
        lambda a: a.update({WEIGHTS: a[WEIGHTS][..., :-1]}),
        "'arrays'",
    ),
    "no-weights": (lambda a: a.pop(WEIGHTS), "'arrays'"),
    "vast-weights": (lambda a: a.update({WEIGHTS: 1e38 + a[WEIGHTS]}), "predictions"),
    "no-center": (lambda a: a.pop("inputs.center"), "inputs.center"),
    "scales-of-single-precision": (
        lambda a: a.update({"inputs.scale": a["inputs.scale"].float()}),
        "inputs.scale",
    ),
    "limits-upside-down": (
        lambda a: a.update({"inputs.low": a["inputs.high"] + 1}),
        "inputs.low",
    ),
    "bins-without-width": (
        lambda a: a.update({f"{ENCODING}width": 0 * a[f"{ENCODING}width"]}),
        "must be above 0",
    ),
    "vast-encoding": (
        lambda a: a.update(
            {n: v.repeat(400) for n, v in a.items() if n.startswith(ENCODING)}
        ),
        "was changed",
    ),
}


@pytest.mark.parametrize("name", [*CHANGES, *ARRAYS])
def test_what_does_not_fit_together_is_refused(
    fitted: CalibratedRegressor, tmp_path: Path, name: str
) -> None:
    arrays, description = described(fitted)
    change, said = (CHANGES | ARRAYS)[name]
    change(description if name in CHANGES else arrays)
    folder = write_folder(
        tmp_path / "model",
        arrays=arrays,
        description=description,
        kind="CalibratedRegressor",
    )
    with pytest.raises(StorageError, match=said) as caught:
        load(folder)
    text = str(caught.value)
    assert text.startswith(f"{folder}: ")
    assert re.search(r" of (model\.json|arrays\.safetensors) ", text)
    assert "damaged or was not written by calibrant" in text
    assert not re.search(r"\w+Error\b|unpack|object is|argument", text)


def test_members_that_disagree_a_thousandfold_are_read_again(
    tmp_path: Path, cheap: Make, line: Rows
) -> None:
    # Spreads at their floor beside means that differ: a table without noise.
    model = cheap(members=4, folds=3, epochs=1).fit(*line)
    model.model_.members.networks.disagreement = 1e5
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load(tmp_path / "model").predict_interval(line[0]),
        model.predict_interval(line[0]),
    )
