"""Plans by name."""

from dataclasses import replace

from calibrant._checks import InputError
from calibrant.benchmark.plan import CONDITIONAL, Plan, Study
from calibrant.data import is_present
from calibrant.regularizers import REGULARIZERS

__all__ = ["PROFILES", "profile"]

SMALL = (
    "yacht",
    "boston",
    "fish",
    "concrete",
    "airfoil",
    "red_wine",
    "white_wine",
    "kin8nm",
)
LARGE, YEAR = "protein", "year_msd"
SWEEP = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_NETWORKS = ("mc_dropout", "deep_ensemble")
_BOTH = ("none", "isotonic")
# The text's number of epochs, and one at which ensembles overfit as the tables do.
_EPOCHS = (64, 100)


def _quick() -> list[Study]:
    """One repeat of the eight smaller sets, and a sweep on one of them.

    What takes longest comes first: then no worker waits long for another at the end.
    """
    largest_first = SMALL[::-1]
    return [
        Study(data=largest_first, networks=(network,), recalibrations=_BOTH)
        for network in ("deep_ensemble", "mc_dropout")
    ] + [Study(data=("concrete",), networks=("mc_dropout",), strengths=SWEEP)]


def _paper() -> list[Study]:
    """Tables 1-4 and Figures 1-2; what takes longest comes last."""
    dropout = Study(
        data=(*SMALL, LARGE),
        networks=("mc_dropout",),
        recalibrations=_BOTH,
        repeats=5,
    )
    ensemble = replace(dropout, data=SMALL, networks=("deep_ensemble",), epochs=_EPOCHS)
    studies = [
        dropout,
        replace(dropout, data=("concrete",), strengths=SWEEP, recalibrations=("none",)),
        ensemble,
        Study(
            data=("concrete",),
            networks=("deep_ensemble",),
            strengths=SWEEP,
            repeats=2,
        ),
        Study(data=(LARGE,), networks=("mc_dropout",), strengths=SWEEP, repeats=2),
        replace(ensemble, data=(LARGE,), repeats=2),
        Study(data=(LARGE,), networks=("deep_ensemble",), strengths=SWEEP),
    ]
    if is_present(YEAR):
        fixed = replace(dropout, data=(YEAR,), split="fixed", folds=1)
        studies += [
            fixed,
            replace(fixed, networks=("deep_ensemble",), epochs=_EPOCHS, repeats=1),
            replace(
                fixed,
                networks=_NETWORKS,
                strengths=SWEEP,
                recalibrations=("none",),
                repeats=1,
            ),
        ]
    return studies


def _shuffled() -> list[Study]:
    """Folds at random: what the paper compares, and what it does not."""
    plain = Study(
        data=(*SMALL, LARGE),
        networks=("mc_dropout",),
        recalibrations=_BOTH,
        split="shuffled",
        repeats=2,
    )
    others = tuple(name for name in REGULARIZERS if name != "cumulative_kl")
    default = replace(
        plain,
        data=SMALL,
        networks=("default",),
        strengths=(0.0,),
        recalibrations=("out_of_fold",),
    )
    return [
        plain,
        replace(
            plain,
            data=SMALL,
            regularizers=(*others, CONDITIONAL),
            strengths=(),
            recalibrations=("none",),
        ),
        default,
        replace(plain, data=SMALL, networks=("deep_ensemble",)),
        replace(default, data=(LARGE,)),
        replace(plain, data=(LARGE,), networks=("deep_ensemble",)),
    ]


PROFILES = {"quick": _quick, "paper": _paper, "shuffled": _shuffled}


def profile(name: str, *, seed: int = 0) -> Plan:
    """Return a plan by name.

    Parameters
    ----------
    name
        ``"quick"`` (minutes), ``"paper"`` or ``"shuffled"`` (hours).
    seed
        Of the plan.

    Examples
    --------
    >>> len(profile("quick").cells())
    345
    """
    if name not in PROFILES:
        raise InputError(f"profile must be one of {', '.join(PROFILES)}, got {name!r}.")
    return Plan(studies=tuple(PROFILES[name]()), seed=seed, name=name)
