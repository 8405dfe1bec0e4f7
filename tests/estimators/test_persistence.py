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

from calibrant.estimators import CalibratedRegressor, load
from calibrant.estimators.persistence import described
from calibrant.learners.mlp import GaussianHead, GaussianMixtureHead
from calibrant.recalibration.maps import BetaRecalibrator
from calibrant.storage import StorageError, write_folder
from calibrant.transforms import LogitTransform
from calibrant.validation import InputError

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


def forged(state: dict[str, Any], path: str, value: object) -> None:
    """Change a field of a description; a map's state is text inside of it."""
    outer, _, inner = path.partition(".")
    if outer == "recalibrator" and inner:
        content = json.loads(state[outer])
        content["state"][inner] = value
        state[outer] = json.dumps(content)
    else:
        (state[outer] if inner else state)[inner or outer] = value


VAST_HEAD = {"head": "gaussian_mixture", "options": {"components": 10**12}}

CHANGES: list[tuple[str, object, str]] = [
    ("parameters", [1], "'parameters'"),
    ("parameters.surprise", 1, "'parameters'"),
    ("parameters.hidden", [10**9, 10**9], "was changed"),
    ("parameters.head", VAST_HEAD, "was changed"),
    ("parameters.head", {}, "'parameters'"),
    ("parameters.distribution", [], "'parameters'.*distribution must"),
    ("parameters.strength", "x", "'parameters'"),
    ("parameters.network", "../../etc/passwd", "no network is called"),
    ("features", 10**12, "'arrays'.*shape"),
    ("features", "4", "'features'"),
    ("networks", 100_000, "'arrays'.*shape"),
    ("networks", 0, "'arrays'.*'shares' are of"),
    ("networks", True, "'networks'"),
    ("disagreement", 0.1, "'disagreement'"),
    ("disagreement", [-1.0], "'disagreement'"),
    ("shares", [1.0, 1.0], "'shares'"),
    ("factors", [0.0], "'factors'"),
    ("bounds", 5, "'bounds'"),
    ("bounds", ["0", "1"], "'bounds'"),
    ("bounds", [1.0, 0.0], "'bounds'"),
    ("cut_first", True, "'cut_first'"),
    ("feature_names", ["a"], "'feature_names'"),
    ("feature_names", "ab", "'feature_names'"),
    ("strength", None, "'strength'"),
    ("history", [{}], "'history'"),
    ("strength_path", {"crps": [1]}, "'strength_path'"),
    ("recalibrator", None, "'recalibrator'"),
    ("recalibrator", 3, "'recalibrator'"),
    ("recalibrator.upper", 1e300, "'recalibrator'"),
    ("recalibrator.shift", "x", "'recalibrator'"),
    ("recalibrator", '{"name": "os.system"}', "what a recalibrator's"),
    ("transform", '{"name": "os.system"}', "what a transform's"),
]

Change = Callable[[Tensor], Tensor | None]
WEIGHTS = "networks.0.stack.weights.0"
ENCODING = "networks.0.stack.encoding."

ARRAYS: list[tuple[str, Change, str]] = [
    (f"{ENCODING}column", lambda _: None, "one of its 2 features"),
    (f"{ENCODING}column", lambda a: a + 1, "one of its 2 features"),
    (f"{ENCODING}column", lambda a: a - 1, "one of its 2 features"),
    (f"{ENCODING}column", lambda a: a / 1, "one of its 2 features"),
    (f"{ENCODING}column", lambda a: a.repeat(400), "was changed"),
    (f"{ENCODING}width", lambda a: 0 * a, "must be above 0"),
    (f"{ENCODING}forward", lambda a: a, "encoding.forward"),
    (WEIGHTS, lambda _: None, "'arrays'"),
    (WEIGHTS, lambda a: a[..., :-1], "'arrays'"),
    (WEIGHTS, lambda a: a * torch.nan, "stack.weights.0"),
    (WEIGHTS, lambda a: 1e38 + a, "predictions"),
    ("inputs.center", lambda _: None, "inputs.center"),
    ("inputs.scale", lambda a: a.float(), "inputs.scale"),
    ("inputs.low", lambda a: 1e9 + a, "inputs.low"),
]


@pytest.mark.parametrize(("name", "value", "said"), [*CHANGES, *ARRAYS])
def test_what_does_not_fit_together_is_refused(
    fitted: CalibratedRegressor, tmp_path: Path, name: str, value: Any, said: str
) -> None:
    arrays, description = described(fitted)
    if not callable(value):
        forged(description, name, value)
    elif (changed := value(arrays.pop(name, torch.zeros(3)))) is not None:
        arrays[name] = changed
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
