"""A model that was read from its folder is the one that was written."""

import json
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
from calibrant.learners.heads import GaussianHead, GaussianMixtureHead
from calibrant.recalibration.beta import BetaRecalibrator
from calibrant.storage import StorageError, write_folder
from calibrant.transforms import from_functions
from calibrant.transforms.logit import LogitTransform

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
    {"law": "mixture", "target_transform": "yeo_johnson"},
    {"bins": 0},
    {"bins": 3, "network": "mc_dropout", "passes": 2, "recalibrate_on": "held_out"},
    {"head": "laplace", "recalibrate_on": "held_out"},
    {"head": "student_t", "recalibrate_on": "held_out"},
    {"head": "gaussian_mixture"},
    {"head": GaussianMixtureHead(components=2, floor=0.05)},
    {"law": "moment_matched", "hidden": np.array([4, 6])},
    {"target_transform": "log"},
    {"target_transform": "box_cox"},
    {"target_transform": "logit"},
    {"target_transform": LogitTransform(low=-1, high=2)},
    {"bounds": (0.0, np.inf)},
    {"strength": "auto", "strength_grid": np.array([0.0, 2.0]), "patience": None},
    {"random_state": np.random.RandomState(0), "members": np.int64(1)},
    {"callbacks": [lambda _: None], "schedule": lambda _: 0.5},
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
    stacks: list[Any] = [m.model_.members.networks[0].stack for m in (model, again)]
    assert all((stack.encoding is None) == (model.bins == 0) for stack in stacks)
    # What was read can be written, read and fitted again.
    same_laws(model, load(again.save(tmp_path / "again")), x)
    again.set_params(epochs=1).fit(x, y)


def test_nothing_is_pickled(fitted: CalibratedRegressor, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "model")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["arrays.safetensors", "model.json"]
    for path in folder.iterdir():
        assert not path.read_bytes().startswith(b"\x80")  # a pickle's first byte
        assert b"PK\x03\x04" not in path.read_bytes()[:4]  # nor torch.save's
    stored = json.loads((folder / "model.json").read_text())
    assert stored["description"]["parameters"]["members"] == 2


def test_parameters_come_back(
    cheap: Make, shares: Rows, tmp_path: Path, fitted: CalibratedRegressor
) -> None:
    again = load(fitted.save(tmp_path / "model"))
    assert again.get_params() == fitted.get_params()
    own = cheap(
        epochs=1,
        bounds=(-np.inf, 5.0),
        conditional=["spread"],
        head=GaussianHead(floor=0.2),
        callbacks=[lambda _: None],
        recalibrator=BetaRecalibrator(),
    ).fit(*shares)
    again = load(own.save(tmp_path / "own"))
    assert again.bounds == (-np.inf, 5.0)
    assert again.conditional == ("spread",)
    assert again.head.floor == 0.2  # type: ignore[union-attr]
    # Objects that only a training needs have their defaults.
    assert again.callbacks == ()
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
        with pytest.raises(InputError, match=r"(?s)the very weights .*size mismatch"):
            load(folder, network=lambda d: Own(d, units=5))

    def test_unknown_parts(self, folder: Path) -> None:
        with pytest.raises(InputError, match=r"no parameters netwrk.*network= and"):
            load(folder, netwrk=Own)

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
        with pytest.raises(InputError, match="cannot be stored, because code is not"):
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
    def test_overwriting(
        self, fitted: CalibratedRegressor, cheap: Make, line: Rows, tmp_path: Path
    ) -> None:
        folder = fitted.save(tmp_path / "model")
        other = cheap(epochs=1, random_state=9).fit(*line)
        with pytest.raises(StorageError, match="overwrite=True"):
            other.save(folder)
        np.testing.assert_array_equal(
            load(folder).predict_interval(line[0]), fitted.predict_interval(line[0])
        )
        other.save(folder, overwrite=True)
        np.testing.assert_array_equal(
            load(folder).predict_interval(line[0]), other.predict_interval(line[0])
        )

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="there is no folder"):
            load(tmp_path / "nothing")

    def test_a_folder_of_another_kind(self, tmp_path: Path) -> None:
        folder = write_folder(
            tmp_path / "model", arrays={}, description={}, kind="TableModel"
        )
        with pytest.raises(StorageError, match=r"calibrant\.TableModel\.load\(folder"):
            load(folder)

    def test_an_edited_folder(
        self, fitted: CalibratedRegressor, tmp_path: Path
    ) -> None:
        folder = fitted.save(tmp_path / "model")
        manifest = folder / "model.json"
        manifest.write_text(
            manifest.read_text().replace('"members": 2', '"members": 3')
        )
        with pytest.raises(StorageError, match="has been edited"):
            load(folder)

    def test_a_folder_cut_short(
        self, fitted: CalibratedRegressor, tmp_path: Path
    ) -> None:
        folder = fitted.save(tmp_path / "model")
        arrays = folder / "arrays.safetensors"
        arrays.write_bytes(arrays.read_bytes()[:-10])
        with pytest.raises(StorageError, match="truncated or replaced"):
            load(folder)
        arrays.unlink()
        with pytest.raises(StorageError, match="is missing"):
            load(folder)
