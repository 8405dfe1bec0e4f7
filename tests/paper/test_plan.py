"""Plans: products of choices, profiles, TOML."""

from pathlib import Path

import pytest

from calibrant import InputError
from calibrant.paper.plan import PROFILES, Plan, Study, profile, read_plan


def test_a_study_is_the_product_of_its_choices() -> None:
    study = Study(
        data=("a", "b"),
        networks=("mc_dropout",),
        strengths=(0, 1, 2),
        epochs=(1, 2),
        recalibrations=("none", "isotonic"),
        folds=3,
        repeats=2,
    )
    cells = list(study.cells())
    assert len(cells) == len(set(cells)) == 2 * 3 * 2 * 2 * 3 * 2


def test_strength_zero_is_one_arm_whatever_the_regularizer() -> None:
    study = Study(
        data=("a",),
        networks=("mc_dropout",),
        regularizers=("cumulative_kl", "cramer_von_mises"),
        strengths=(0.0, 3.0),
    )
    arms = {(cell.regularizer, cell.strength) for cell in study.cells()}
    assert arms == {("none", 0.0), ("cumulative_kl", 3.0), ("cramer_von_mises", 3.0)}


def test_without_strengths_each_regularizer_has_its_own() -> None:
    study = Study(
        data=("a",), regularizers=("spacing_entropy", "conditional"), strengths=()
    )
    arms = {(cell.regularizer, cell.strength) for cell in study.cells()}
    assert arms == {("spacing_entropy", 1.0), ("conditional", 20.0)}


def test_recalibrations_go_with_the_networks_that_can_have_them() -> None:
    study = Study(
        data=("a",),
        networks=("mc_dropout", "default"),
        recalibrations=("none", "isotonic", "out_of_fold"),
    )
    pairs = {(cell.network, cell.recalibration) for cell in study.cells()}
    assert pairs == {
        ("mc_dropout", "none"),
        ("mc_dropout", "isotonic"),
        ("default", "out_of_fold"),
    }


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_survive_toml(name: str, tmp_path: Path) -> None:
    plan = profile(name, seed=3)
    path = tmp_path / "plan.toml"
    path.write_text(str(plan))
    assert read_plan(path) == plan


def test_the_quick_profile_is_what_it_says() -> None:
    cells = profile("quick").cells()
    assert {cell.repeat for cell in cells} == {0}
    assert "protein" not in {cell.data for cell in cells}
    sweep = {
        c.strength for c in cells if (c.data, c.network) == ("concrete", "mc_dropout")
    }
    assert sweep == {0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = ", "is not TOML"),
        ("seed = 1", r"at least one \[\[study\]\]"),
        ("seeds = 1", "has no 'seeds'.*name, seed, study"),
        ("seed = 'a'\n[[study]]\ndata = ['a']", "seed must be a whole number"),
        ("[[study]]\nfolds = 3", "study 1 must name its data"),
        ("[[study]]\ndata = ['a']\nfold = 3", "study 1 has no 'fold'"),
        ("[[study]]\ndata = ['a']\nfolds = '3'", "folds must be"),
        ("[[study]]\ndata = ['a']\nfolds = [3]", "folds must be"),
        ("[[study]]\ndata = [1]", "data must be"),
        ("[[study]]\ndata = ['a']\nrepeats = true", "repeats must be"),
        ("[[study]]\ndata = ['a']\nfolds = 1", "study 1: folds must be at least 2"),
        ("[[study]]\ndata = ['a']\nsplit = 'fixed'", "fixed split has 1 fold"),
        ("[[study]]\ndata = []", "data of a study must not be empty"),
        ("[[study]]\ndata = ['a']\nepochs = [0]", "epochs must be at least 1"),
        ("[[study]]\ndata = ['a']\nstrengths = [-1]", "finite and at least 0"),
        ("[[study]]\ndata = ['a']\nstrengths = [nan]", "finite and at least 0"),
        ("[[study]]\ndata = ['a']\nnetworks = ['default']", "takes out_of_fold"),
        ("study = [1, 2]", r"at least one \[\[study\]\]"),
        ("seed = true\n[[study]]\ndata = ['a']", "seed must be a whole"),
        (
            "[[study]]\ndata = ['a']\nnetworks = ['x']",
            "networks must be out of mc_drop",
        ),
        (
            "[[study]]\ndata = ['a']\nregularizers = ['x']",
            "regularizers must be out of",
        ),
        ("[[study]]\ndata = ['a']\nsplit = 'x'", "split must be out of unshuffled"),
    ],
)
def test_a_wrong_plan_is_one_clear_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_plan(path)


def test_any_name_survives_toml(tmp_path: Path) -> None:
    study = Study(data=('a "b"\\\t\x01\x7fé',))
    path = tmp_path / "plan.toml"
    for mark in ("", "\ufeff"):  # some editors begin a file with one
        path.write_text(mark + str(Plan(studies=(study,), name='"')), encoding="utf-8")
        assert read_plan(path) == Plan(studies=(study,), name='"')


def test_an_unknown_profile_names_the_known() -> None:
    with pytest.raises(InputError, match="quick, paper, shuffled, got 'fast'"):
        profile("fast")
