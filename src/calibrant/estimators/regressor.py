"""A scikit-learn regressor whose uncertainty can be trusted."""

import copy
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_X_y
from sklearn.utils.validation import check_is_fitted
from torch import nn

from calibrant._distributed import (
    fingerprint_of,
    join_team,
    local_device,
    plain,
)
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.derived import Censored, Rounded
from calibrant.estimators.base import (
    DistributionRegressor,
    Features,
    Table,
    check_targets,
    read_features,
    read_table,
    seed_from,
)
from calibrant.estimators.folds import (
    Blocks,
    Column,
    Design,
    design_for,
    warn_of_order,
)
from calibrant.estimators.networks import Architecture, Networks, fit_networks
from calibrant.estimators.pool import (
    Blend,
    Clones,
    Family,
    Pool,
    fit_clones,
    fit_map,
    fit_trees,
    fresh_recalibrator,
)
from calibrant.learners import HEADS, NETWORKS
from calibrant.metrics.calibration import calibration_error
from calibrant.metrics.floors import noise_floor
from calibrant.metrics.pit import detect_grid
from calibrant.protocols import Head, Recalibrator, Regularizer, TargetTransform
from calibrant.scores import Score
from calibrant.storage import write_folder
from calibrant.training import DivergedError, History, InterruptedWarning, Recipe
from calibrant.transforms import TRANSFORMS
from calibrant.validation import ArrayLike, InputError, UnsupportedError, find_part

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "OPTIONS",
    "CalibratedRegressor",
    "Fitted",
    "StrengthPath",
    "choose_strength",
    "measures",
    "sweep",
    "training_device",
]

Array = npt.NDArray[np.float64]
Callbacks = Sequence[Callable[..., bool | None]]
#: Whether a setting fits, and what it must do.
Rule = tuple[Callable[[Any], bool], str]
#: Members of one strength, their curves, and their pools for rows they had not seen.
Trained = tuple[Networks, list[History], Pool]

#: Settings that are rarely changed, and their defaults.
OPTIONS: Mapping[str, Any] = {
    "spread_floor": 1e-3,
    "dropout": 0.1,
    "passes": 20,
    "clip_features": True,
    "strength_grid": (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
    "strength_rule": "crps",
    "regularize_on": "train",
    "regularize_whole": False,
    "sort": None,
    "conditional": (),
    "adversarial": 0.0,
    "held_out_share": "auto",
    "validation_share": "auto",
    "round_targets": True,
    "optimizer": "adam",
    "schedule": "cosine",
    "gradient_clip": 10.0,
}
# What "auto" is, for few and for many rows.
_BY_SIZE: Mapping[str, tuple[Any, Any]] = {
    "members": (4, 6),
    "hidden": ((64, 64), (128, 128)),
    "head": ("gaussian", "gaussian_mixture"),
    "recalibrate_on": ("out_of_fold", "held_out"),
}
# Epochs of patience where all rows judge, and where a few of each member's rows do.
_FOLDED_PATIENCE, _OWN_PATIENCE = 15, 30
# Of "auto" shares: the largest, and the rows beyond which they fall: those of the map
# to a tenth, those of early stopping as far as it takes.
_HELD_OUT, _MAPPED, _VALIDATION, _JUDGED = 0.2, 2_000, 0.1, 2_000
# Up to so many rows each has a pool of unseen members; from so many on a map may have
# as many knots as it wants.
_MOST_FOLDED, _FEWEST_SMOOTH = 20_000, 300
# Of "auto": epochs, and rows that they pass in all.
_FEWEST_EPOCHS, _MOST_EPOCHS, _MOST_PASSED = 24, 120, 6_000_000
# Fewer rows say next to nothing about the shape of a map.
_FEWEST_NEW = 20
# Steps of a target that takes few values.
_MOST_STEPS = 20
# Of boosted trees: folds at most, and rows that they need.
_TREE_FOLDS, _FEWEST_GROWN = 5, 100


@dataclass(frozen=True, eq=False)
class StrengthPath:
    """Out-of-sample measures along a grid of ``k`` strengths, and the chosen one.

    It has the smallest calibration error among those that score hardly worse than the
    best: CRPS at most 1.05 times, or NLL at most 0.05 nats above. Its error here is
    optimistic, as the smallest of several noisy numbers.
    """

    #: The grid, shape ``(k,)``.
    strengths: Array
    #: Sum over 20 levels of squared gaps, of distributions before recalibration, on
    #: rows that the members had not seen, ``(k,)``; NaN where training diverged.
    calibration_error: Array
    #: What a perfectly calibrated model shows on as many rows.
    noise_floor: float
    #: Mean scores of the same distributions, ``(k,)``.
    crps: Array
    nll: Array
    #: Which strengths are within the budget, ``(k,)``.
    allowed: npt.NDArray[np.bool_]
    #: The strength of the model.
    chosen: float

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each strength."""
        import pandas as pd

        columns = ("calibration_error", "crps", "nll", "allowed")
        frame = pd.DataFrame({name: getattr(self, name) for name in columns})
        frame["chosen"] = self.strengths == self.chosen
        return frame.set_index(pd.Index(self.strengths, name="strength"))


def choose_strength(
    strengths: Array,
    calibration_error: Array,
    crps: Array,
    nll: Array,
    *,
    noise_floor: float,
    rule: str = "crps",
) -> StrengthPath:
    """Take the smallest calibration error among strengths within the budget."""
    score = crps if rule == "crps" else nll
    # NaN, of a training that diverged, is worse than anything.
    known = ~np.isnan(score) & ~np.isnan(calibration_error)
    best = np.where(known, score, np.inf).min()
    allowed = known & (score <= (1.05 * best if rule == "crps" else best + 0.05))
    chosen = float(strengths[np.where(allowed, calibration_error, np.inf).argmin()])
    return StrengthPath(
        strengths, calibration_error, noise_floor, crps, nll, allowed, chosen
    )


def sweep(
    strengths: Sequence[float], train: Callable[[float], Trained], *, rule: str
) -> tuple[Trained, StrengthPath, bool]:
    """Train with each strength of an ascending grid and choose one by rule.

    All start from the same weights and see the same batches. A strength whose training
    diverges is not chosen. A training that is interrupted by hand is the last, and the
    third of what comes back says so.
    """
    interrupted = False
    found: list[tuple[float, ...]] = []
    kept: dict[float, Trained] = {}
    failure: DivergedError | None = None
    path: StrengthPath | None = None
    for strength in strengths:
        try:
            trained = train(strength)
        except DivergedError as error:
            failure = error
            found.append((strength, np.nan, np.nan, np.nan))
            continue
        _, histories, pool = kept[strength] = trained
        found.append((strength, *measures(pool)))
        floor = noise_floor(n=len(pool.y)).expectation
        path = choose_strength(*np.array(found).T, noise_floor=floor, rule=rule)
        # A better score later can only shut strengths out: keep all that are allowed.
        allowed = path.strengths[path.allowed].tolist()
        kept = {key: value for key, value in kept.items() if key in allowed}
        interrupted = any(history.interrupted for history in histories)
        if interrupted:
            break
    if path is None or not kept:
        raise failure or InputError(
            f'the {rule} of no strength is a number. Use strength_rule="nll" for '
            "distributions without a mean."
        )
    measured = np.array(found).T  # with those that diverged last
    path = choose_strength(*measured, noise_floor=path.noise_floor, rule=rule)
    return kept[path.chosen], path, interrupted


def measures(pool: Pool) -> tuple[float, float, float]:
    """Calibration error, mean CRPS and mean NLL of the pools of unseen members."""
    predictive = pool.distribution()
    try:
        crps = float(predictive.crps(pool.y).mean())
    except UnsupportedError:  # a distribution without a mean: the rule can be "nll"
        crps = np.nan
    nll = float(-predictive.log_prob(pool.y).mean())
    return calibration_error(pool.pit(0)), crps, nll


@dataclass(frozen=True)
class Fitted:
    """A model: families of members, and the correction of their distribution."""

    members: Blend
    recalibrator: Recalibrator | None
    bounds: tuple[float, float] | None = None  # where it has mass of its own
    values: tuple[float, ...] | None = None  # that targets are rounded to, last

    def distribution(self, x: Array) -> AbstractDistribution:
        """Distribution of each row ``(n, d)``, batch shape ``(n,)``."""
        predictive: Any = self.members.distribution(x)
        if self.recalibrator is not None:
            predictive = self.recalibrator.transform(predictive)
        if self.bounds is not None:
            predictive = Censored(predictive, *self.bounds)
        return predictive if self.values is None else Rounded(predictive, self.values)


class CalibratedRegressor(DistributionRegressor):
    r"""Regression with calibrated predictive distributions, for scikit-learn.

    The rows are cut into ``folds``, ``members`` times, and each network learns without
    one fold of one partition: the pool of the ``members`` networks that have not seen a
    row is its out-of-fold distribution. Boosted trees are pooled in the same way, and
    the pools are blended with the share that has the best CRPS on unseen rows; a family
    that does not help by 1 % is dropped. One map is learned from the PIT values of all
    out-of-fold distributions, extrapolated to the larger pool that is served.

    Parameters
    ----------
    learners
        Families of members: ``"network"``, ``"boosting"`` (trees that LightGBM grows,
        with a mean and a spread), and any regressors of scikit-learn's kind, whose
        clones predict as in ``recalibrate`` (such a model cannot be saved). All but
        networks join from 100 rows on, with the normal head (so by default up to
        20,000 rows) and ``distribution="pooled"``, where a map has unseen rows.
    network
        ``"deep_ensemble"``, ``"mc_dropout"``, or a function of the number of features
        that makes a new ``nn.Module``: it turns standardized features ``(n, d)`` into a
        distribution of the standardized target (ours, torch's, or ``(mean, std)``).
    members
        Networks of the ensemble; with ``"out_of_fold"`` those that have not seen a row,
        so that ``members * folds`` are trained. As many tree models have not seen it.
        ``"auto"``: 4 up to 20,000 rows, 6 beyond.
    hidden
        Units of each hidden layer. ``"auto"``: (64, 64) up to 20,000 rows, (128, 128)
        beyond.
    head
        A name from ``HEADS``, or an object: the family of each member's distribution.
        ``"auto"``: ``"gaussian"`` up to 20,000 rows, ``"gaussian_mixture"`` beyond.
    bins
        Of a piecewise-linear encoding that the first layer sees beside each feature, at
        most 1024 for all of them; 0 for none.
    distribution
        What is made of the members' distributions: ``"pooled"``, a normal distribution
        whose variance counts their disagreement three times (their mixture if they are
        not normal); ``"mixture"``; or ``"moment_matched"``, the paper's normal
        distribution with the moments of the mixture.
    target_transform
        A name from ``TRANSFORMS`` (``"log"``, ``"box_cox"``, ...), or an object. The
        distribution and its likelihood are those of the target itself.
    bounds
        Least and largest possible target, None for none. Distributions are cut there
        and scaled up before the recalibration. If targets stand on a bound, the
        distribution has mass of its own there instead (``Censored``).
    loss
        A name from ``SCORES``.
    regularizer
        A name from ``REGULARIZERS``, or a function of PIT values; see ``Recipe``.
    strength
        Of the regularizer (for trees always the cumulative KL, and 0 for one below 0);
        ``regularizer="pit_entropy", strength=-1`` is quantile recalibration training.
        ``"auto"`` is the one with the smallest calibration error on unseen rows, among
        those of ``strength_grid`` whose CRPS there is at most 1.05 times the best. The
        sweep is kept in ``strength_path_``.
    recalibrator
        A name from ``RECALIBRATORS``, or an unfitted object; None for none. ``"auto"``
        is ``"beta"`` for fewer than 300 calibration rows and ``"smooth"`` for more.
    recalibrate_on
        Where its PIT values come from: ``"out_of_fold"``, ``"held_out"`` (a part that
        no member learns from), ``"train"`` (the paper's, too narrow), or None.
        ``"auto"`` is ``"out_of_fold"`` up to 20,000 rows and ``"held_out"`` beyond.
    folds
        Of each partition of ``"out_of_fold"``, for trees at most 5. There are at most
        as many as rows that differ, or groups.
    epochs
        Passes over the rows at most. ``"auto"``: 120, for members that learn from more
        than 50,000 rows fewer in proportion, and at least 24.
    learning_rate, weight_decay
        See ``Recipe``.
    batch_size
        Rows of each step. ``"auto"``: about 1/32 of a member's rows, a power of 2 from
        32 to 512.
    patience
        Epochs without improvement before training ends: with ``"out_of_fold"`` of the
        pools' CRPS, and all members get the weights of its best epoch back; otherwise
        of the score of each member's own held-out rows. ``"auto"`` is 15 for pools and
        30 otherwise; None for no early stopping.
    device
        ``"auto"``: a CUDA device if there is one. Otherwise a name of torch.
    distributed
        Train networks (trees are left out) with all processes that ``torchrun`` has
        started, each with its part of every batch. All call ``fit`` with the same rows
        and get the same model. The first one's seed counts; it alone shows progress and
        calls callbacks. If one ends or hangs, the others raise ``LostRankError``.
    random_state
        With the same number the same model, bit for bit on the same machine.
    options
        Rare settings by name, which ``set_params`` and a grid search also take
        directly; those left out have their defaults.

        - ``spread_floor`` (0.001): least spread of a member's distribution, in standard
          deviations of the target;
        - ``dropout`` (0.1), ``passes`` (20): of ``"mc_dropout"``, the share of units
          left out, and passes in prediction;
        - ``clip_features`` (True): show the networks no feature beyond the range of the
          training by more than that range, wild cells (1e12 among numbers of order 1)
          not counted;
        - ``strength_grid`` (0, 1, 2, 5, 10, 20, 50), ``strength_rule`` ("crps"): of
          ``strength="auto"``; with ``"nll"``, NLL at most 0.05 nats above the best;
        - ``regularize_on`` ("train"): the rows whose PIT values the regularizer sees;
          with ``"held_out"`` rows whose likelihood a member does not learn from: of the
          member that learns without fold k the next one, and without ``"out_of_fold"``
          a share ``validation_share`` of its rows. Trees then have strength 0, and
          strength 0 holds nothing out;
        - ``regularize_whole`` (False): let ``"held_out"`` move the whole distribution,
          instead of the spread alone; a head without a location needs it;
        - ``sort`` (None), ``conditional`` (()), ``adversarial`` (0.0), ``optimizer``
          ("adam"), ``schedule`` ("cosine"), ``gradient_clip`` (10.0): see ``Recipe``;
        - ``held_out_share`` ("auto"): share of rows that ``"held_out"`` keeps for the
          map; by itself a tenth of them and 2,000 more, at most a fifth;
        - ``validation_share`` ("auto"): share of each member's rows that early stopping
          looks at without ``"out_of_fold"``, and ``regularize_on="held_out"``; by
          itself 2,000 rows, at most a tenth;
        - ``round_targets`` (True): round the distribution of a target that takes at
          most 21 evenly spaced values, as ratings and small counts do (``Rounded``).

    Attributes
    ----------
    strength_, strength_path_
        Strength of the model, and the sweep of ``"auto"``, a ``StrengthPath``.
    history_
        Curves of the networks' training, a list of ``History``; empty for trees alone.
    fitted_parameters_
        All settings that it was fitted with, the options among them.
    plan_
        How many networks and tree models were trained, with which weights they are
        blended and what the map learned from, in words. A loaded model has none.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    ``"held_out"`` with ``"empirical"`` has the guarantee of split
    conformal prediction: if rows are exchangeable and PIT values do not tie, a central
    interval of coverage c covers a new target with probability c, up to
    :math:`2 / (m + 1)` for m held-out rows, on average over rows, not for each x. The
    pool of ``"out_of_fold"`` has no such guarantee, because the correction for its size
    is an extrapolation. Its coverage is measured, see the manual.

    Rows with equal features share a fold; groups are never cut; targets are scaled by a
    member's own rows. All rows together choose the number of epochs, the edges of the
    bins (from features alone) and a power of a target transform.

    References
    ----------
    Utpala and Rai (2020), arXiv:2002.12860. Kuleshov, Fenner and Ermon (2018),
    arXiv:1807.00263. Gneiting and Ranjan (2013), *Combining predictive distributions*,
    arXiv:1106.1638. Gorishniy, Rubachev and Babenko (2022), arXiv:2203.05556.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> X = random.uniform(-1, 1, (120, 2))
    >>> y = X[:, 0] + 0.1 * random.standard_normal(120)
    >>> model = CalibratedRegressor(epochs=20, random_state=0).fit(X, y)
    >>> model.predict_interval(X[:3], coverage=0.9).shape
    (3, 2)
    """

    def __init__(
        self,
        *,
        learners: Sequence[str] = ("network", "boosting"),
        network: str | Callable[[int], nn.Module] = "deep_ensemble",
        members: int | Literal["auto"] = "auto",
        hidden: Sequence[int] | Literal["auto"] = "auto",
        head: str | Head = "auto",
        bins: int = 16,
        distribution: Literal["pooled", "mixture", "moment_matched"] = "pooled",
        target_transform: str | TargetTransform | None = None,
        bounds: tuple[float | None, float | None] | None = None,
        loss: str | Score = "crps",
        regularizer: str | Regularizer = "cumulative_kl",
        strength: float | Literal["auto"] = 0.0,
        recalibrator: str | Recalibrator | None = "auto",
        recalibrate_on: str | None = "auto",
        folds: int = 10,
        epochs: int | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: float = 5e-3,
        weight_decay: float = 0.0,
        patience: int | Literal["auto"] | None = "auto",
        device: str = "auto",
        distributed: bool = False,
        random_state: int | np.random.RandomState | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.learners = learners
        self.network = network
        self.members = members
        self.hidden = hidden
        self.head = head
        self.bins = bins
        self.distribution = distribution
        self.target_transform = target_transform
        self.bounds = bounds
        self.loss = loss
        self.regularizer = regularizer
        self.strength = strength
        self.recalibrator = recalibrator
        self.recalibrate_on = recalibrate_on
        self.folds = folds
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.device = device
        self.distributed = distributed
        self.random_state = random_state
        self.options = options

    @classmethod
    def paper(
        cls,
        network: Literal["mc_dropout", "deep_ensemble"] = "mc_dropout",
        *,
        strength: float = 20.0,
        **changes: Any,  # noqa: ANN401
    ) -> Self:
        """Make the models of the paper, exactly as its protocol says.

        ``strength`` is 0 for its base models; ``changes`` are other parameters of the
        estimator, or options by name. For its comparison, isotonic recalibration, add
        ``recalibrator="isotonic", recalibrate_on="train"``; for its sort,
        ``sort="neural"``.

        Examples
        --------
        >>> CalibratedRegressor.paper("deep_ensemble").settings()["adversarial"]
        0.01
        """
        ensemble = network == "deep_ensemble"
        model = cls(
            learners=("network",),
            network=network,
            members=5 if ensemble else 1,
            hidden=(128, 128),
            head="gaussian",
            bins=0,
            distribution="moment_matched",
            loss="nll",
            strength=strength,
            recalibrator=None,
            recalibrate_on=None,
            epochs=100,
            batch_size=512,
            learning_rate=1e-2,
            patience=None,
            options={
                "spread_floor": 0.1,
                "dropout": 0.25,
                "passes": 10,
                "clip_features": False,
                "adversarial": 0.01 if ensemble else 0.0,
                "schedule": "constant",
                "gradient_clip": None,
            },
        )
        return model.set_params(**changes)

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Set parameters as in scikit-learn, or options by their names.

        Examples
        --------
        >>> CalibratedRegressor().set_params(members=3, sort="soft").options
        {'sort': 'soft'}
        """
        options = {name: params.pop(name) for name in OPTIONS if name in params}
        super().set_params(**params)
        if options:
            self.options = {**(self.options or {}), **options}
        return self

    def settings(self) -> dict[str, Any]:
        """Return all parameters by name, the options with their defaults among them."""
        given = self.get_params(deep=False)
        options = given.pop("options") or {}
        if not isinstance(options, Mapping) or set(options) - set(OPTIONS):
            raise InputError(
                f"options must be a mapping of the names {', '.join(OPTIONS)}, got "
                f"{options!r:.200}."
            )
        return {**given, **OPTIONS, **options}

    def fit(  # noqa: C901  (its steps in order, each short)
        self,
        X: Features,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Column | None = None,
        time: Column | None = None,
        callbacks: Callbacks = (),
        progress: bool | None = False,
    ) -> Self:
        """Train, choose the strength if asked to, and recalibrate.

        Parameters
        ----------
        X
            Features, shape ``(n, d)``, numbers without gaps.
        y
            Targets, shape ``(n,)``.
        sample_weight
            Weights of the rows in the loss, shape ``(n,)``. Regularizer and
            recalibration count each row once.
        groups
            Labels of rows that belong together (a patient, a site), shape ``(n,)``:
            they never stand on both sides of a cut.
        time
            Times of the rows, shape ``(n,)``: folds are then stretches of time, and
            held-out rows the latest.
        callbacks
            Called with an ``EpochState`` after each epoch; True ends the training.
        progress
            Show a progress bar; None shows one on a terminal only.

        Raises
        ------
        KeyboardInterrupt
            The training was interrupted by hand (Ctrl-C). After an epoch or more, the
            model can still predict, with its best weights so far; where
            ``strength="auto"`` trains the model after the sweep, not before that.
        """
        settings = self.check_settings()
        table = read_table(
            self, X, y, sample_weight=sample_weight, groups=groups, time=time
        )
        seed, rows = seed_from(self.random_state), len(table.y)
        if self.distributed:
            seed = _common_seed(self, table, seed)
        strategy = self._strategy(rows)
        apart = settings["regularize_on"] == "held_out" and self.strength != 0
        design = self._design(table, strategy, seed, apart=apart)
        architecture = self.architecture(rows)
        transform = architecture.fitted_transform(table.y)
        cut = None if table.on_bounds else table.bounds

        def targets(y: Array) -> Array:
            if transform is None:
                return y
            moved: Array = transform.forward(torch.from_numpy(y)).numpy()
            return moved

        def blend(*families: Family) -> Blend:
            return Blend(families, self.distribution, transform, cut)

        def train(strength: float, table: Table, design: Design) -> Trained:
            most = max(map(len, design.rows))
            members, histories = fit_networks(
                table,
                design,
                architecture,
                self.recipe(strength, most, folded=design.unseen is not None),
                seed=seed,
                validation_share=self._validation_share(most),
                device=training_device(self),
                targets=targets(table.y),
                distributed=self.distributed,
                callbacks=callbacks,
                progress=progress,
                title=f"strength {strength:g}",
            )
            return members, histories, blend(members).pool(table, [design])

        families: list[Family] = []
        designs: list[Design] = []
        histories: list[History] = []
        strength = 0.0 if self.strength == "auto" else float(self.strength)
        path, rival = None, None
        learners = self._learners(table, design)
        if "network" in learners:
            trained, strength, path = self._chosen(table, design, train, seed)
            networks, histories, seen = trained
            families, designs = [networks], [design]
            if any(history.interrupted and not history.loss for history in histories):
                raise KeyboardInterrupt  # not one epoch: there is no best model so far
            if "boosting" in learners:  # what their trees must improve on
                unseen = design.weights(tuple(range(design.pool_size)))
                rival = blend(networks).pools(seen.members, [unseen])[0]
        interrupted = any(history.interrupted for history in histories)
        moved = replace(table, y=targets(table.y))
        others = [name for name in learners if name != "network"]
        if others and not interrupted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # said of the networks'
                own = self._design(table, strategy, seed, min(self.folds, _TREE_FOLDS))
            try:
                for name in others:
                    found = (
                        fit_trees(
                            table.x,
                            moved.y,
                            table.weights,
                            own,
                            strength=0.0 if apart else max(strength, 0.0),
                            seed=seed,
                            rival=rival,
                            progress=progress,
                        )
                        if name == "boosting"
                        else fit_clones(name, moved, own)
                    )
                    if found is not None:
                        families, designs = [*families, found], [*designs, own]
            except KeyboardInterrupt:
                if not histories:
                    raise
                interrupted = histories[-1].interrupted = True
                warnings.warn(
                    "training was interrupted after the networks; what was finished is "
                    "kept.",
                    InterruptedWarning,
                    stacklevel=2,
                )
        members = blend(*families)
        pool = members.pool(table, designs, targets=moved.y)
        chosen = self._recalibrator(len(design.calibration))
        recalibrator = fit_map(pool, chosen, seed=seed)
        self.plan_ = _plan(members, pool, None if recalibrator is None else chosen)
        if design.unseen is not None and table.blocks.time is None:
            warn_of_order(pool.pit(0), table.blocks.labels)
        self.strength_, self.history_ = strength, histories
        self.__dict__.pop("strength_path_", None)  # that of a former fit
        if path is not None:
            self.strength_path_ = path
        self.model_ = Fitted(
            members,
            recalibrator,
            bounds=table.bounds if table.on_bounds else None,
            values=_few_values(table) if settings["round_targets"] else None,
        )
        by_size = {n: self._by_size(n, rows) for n in ("members", "hidden", "head")}
        self.fitted_parameters_ = settings | by_size
        if interrupted:
            raise KeyboardInterrupt  # who goes on must know that it is half trained
        return self

    def _learners(self, table: Table, design: Design) -> tuple[str, ...]:
        """Return the families to train: all but networks need rows to be weighed by."""
        asked = tuple(self.learners)
        if asked == ("network",):
            return asked
        learned = np.isin(design.calibration, design.rows[0]).any()
        reasons = {
            "the target is constant": np.ptp(table.y) == 0,
            f"there are fewer than {_FEWEST_GROWN} rows": len(table.y) < _FEWEST_GROWN,
            'they need recalibrate_on="out_of_fold" or "held_out"': (
                not len(design.calibration) or (design.unseen is None and learned)
            ),
            "they predict normal distributions, and head or distribution ask for "
            "others": self._by_size("head", len(table.y)) != "gaussian"
            or self.distribution != "pooled",
            "distributed=True trains networks alone": self.distributed,
        }
        reason = next((text for text, holds in reasons.items() if holds), "")
        if reason:
            if any(not isinstance(name, str) for name in asked):
                message = f"learners beside the networks are left out: {reason}."
                warnings.warn(message, UserWarning, stacklevel=3)
            asked = tuple(name for name in asked if name == "network")
        elif "boosting" in asked:
            try:
                import lightgbm  # noqa: F401
            except (ImportError, OSError) as error:
                reason = (
                    f"LightGBM cannot be loaded ({error}). Install lightgbm, on Debian "
                    "also libgomp1"
                )
                message = f"boosted trees are left out: {reason}."
                warnings.warn(message, UserWarning, stacklevel=3)
                asked = tuple(name for name in asked if name != "boosting")
        if not asked:
            raise InputError(
                f'learners={self.learners} cannot be trained: {reason}. Add "network".'
            )
        return asked

    def _chosen(
        self,
        table: Table,
        design: Design,
        train: Callable[[float, Table, Design], Trained],
        seed: int,
    ) -> tuple[Trained, float, StrengthPath | None]:
        """Train with the given strength, or with the one that a sweep chooses."""
        if self.strength != "auto":
            strength = float(self.strength)
            return train(strength, table, design), strength, None
        settings = self.settings()
        own = (table, design)
        if design.unseen is None:
            # Folds supply pools of unseen members: folds of the rows to learn from,
            # since a map's rows must not have a say in it.
            rows, apart = design.rows[0], design.regularized
            learned = table.part(rows if apart is None else np.union1d(rows, apart[0]))
            folds = self._design(learned, "out_of_fold", seed, apart=apart is not None)
            own = (learned, folds)
        trained, path, interrupted = sweep(
            sorted({float(strength) for strength in settings["strength_grid"]}),
            lambda strength: train(strength, *own),
            rule=settings["strength_rule"],
        )
        if design.unseen is None and not interrupted:
            trained = train(path.chosen, table, design)
        elif interrupted:
            if design.unseen is None:
                raise KeyboardInterrupt  # the sweep's members are not those of a model
            trained[1][-1].interrupted = True  # whichever strength was chosen
        return trained, path.chosen, path

    def predict_distribution(self, X: Features) -> AbstractDistribution:
        """Predict the distribution of each row, batch shape ``(n,)``, in float64."""
        check_is_fitted(self, "model_")
        fitted: Fitted = self.model_
        return fitted.distribution(read_features(self, X))

    def refresh(
        self,
        X: Features,
        y: ArrayLike,
        *,
        recalibrator: str | Recalibrator | None = None,
    ) -> "CalibratedRegressor":
        """Learn the calibration again from newer rows, without training.

        One map corrects the pool of all members, to whom these rows are new.

        Parameters
        ----------
        X, y
            Features ``(n, d)`` and targets ``(n,)`` of 20 rows or more that the model
            was not trained on; a few hundred are good.
        recalibrator
            What to learn; None for the model's own choice.

        Returns
        -------
        CalibratedRegressor
            A copy; this model stays as it is.
        """
        check_is_fitted(self, "model_")
        x, target = check_X_y(
            read_features(self, X), y, dtype=np.float64, y_numeric=True
        )
        check_targets(target)
        if len(target) < _FEWEST_NEW:
            raise InputError(
                f"at least {_FEWEST_NEW} rows are needed to refresh a calibration, got "
                f"{len(target)}. Bring more; a few hundred are good."
            )
        result = copy.copy(self)
        if recalibrator is not None:
            result.recalibrator = recalibrator
        if result.recalibrator is None:
            raise InputError(
                "the model was made without a recalibrator, so say which one: "
                'recalibrator="beta", for example.'
            )
        rows = np.arange(len(target))
        table = Table(x, target, Blocks(rows), grid=detect_grid(target))
        members = self.model_.members
        designs = [Design((rows[:0],) * len(own), rows) for own in members.families]
        pool = replace(members).pool(table, designs)
        chosen = result._recalibrator(len(rows))
        learned = fit_map(pool, chosen, seed=seed_from(self.random_state))
        result.model_ = replace(self.model_, recalibrator=learned)
        name = chosen if isinstance(chosen, str) else "your own"
        trained, _, _ = getattr(self, "plan_", "members as loaded").partition(";")
        result.plan_ = f"{trained}; map {name}, from {len(rows):,} newer rows."
        own = {"recalibrator": result.recalibrator}
        result.fitted_parameters_ = self.fitted_parameters_ | own
        return result

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fitted model into a new folder, to be read by ``calibrant.load``.

        The folder holds ``model.json`` (readable, with a format version and checksums)
        and ``arrays.safetensors``. It appears only when it is complete; ``overwrite``
        replaces a model that is there.
        """
        from calibrant.estimators.persistence import described

        check_is_fitted(self, "model_")
        arrays, description = described(self)
        return write_folder(
            folder,
            arrays=arrays,
            description=description,
            kind=CalibratedRegressor.__name__,
            overwrite=overwrite,
        )

    def check_settings(self) -> dict[str, Any]:
        """Refuse settings that cannot work, before anything is trained; return them."""
        settings = self.settings()
        for name, (fits, rule) in _RULES.items():
            if not fits(settings[name]):
                raise InputError(f"{name} must {rule}, got {settings[name]!r:.60}.")
        find_part(self.network, NETWORKS, name="network")
        find_part(self._by_size("head", 0), HEADS, name="head")
        find_part(self.target_transform, TRANSFORMS, name="target_transform")
        if self.recalibrator is not None:
            fresh_recalibrator(self._recalibrator(0))
        return settings

    def _strategy(self, rows: int) -> str | None:
        """Return ``recalibrate_on``; without a map, no rows are held out for one."""
        given: str | None = self._by_size("recalibrate_on", rows)
        needless = self.recalibrator is None and given == "held_out"
        return None if needless else given

    def _design(
        self,
        table: Table,
        strategy: str | None,
        seed: int,
        folds: int | None = None,
        *,
        apart: bool = False,
    ) -> Design:
        """Decide who learns from which rows; the regularizer may have rows apart."""
        rows = len(table.y)
        return design_for(
            strategy,
            table.blocks,
            members=self._by_size("members", rows),
            folds=folds or self.folds,
            share=self._held_out_share(rows),
            regularized_share=self._validation_share(rows) if apart else None,
            random=np.random.default_rng(seed),
        )

    def _recalibrator(self, rows: int) -> Any:  # noqa: ANN401
        """Return the recalibrator for so many calibration rows."""
        few = "beta" if rows < _FEWEST_SMOOTH else "smooth"
        return few if _is_auto(self.recalibrator) else self.recalibrator

    def _by_size(self, name: str, rows: int) -> Any:  # noqa: ANN401
        """Return a setting for so many rows."""
        value = getattr(self, name)
        return _BY_SIZE[name][rows > _MOST_FOLDED] if _is_auto(value) else value

    def _held_out_share(self, rows: int) -> float:
        """Return the share of so many rows that is held out for the map."""
        given = self.settings()["held_out_share"]
        automatic = min(_HELD_OUT, _HELD_OUT / 2 + _MAPPED / rows)
        return automatic if _is_auto(given) else float(given)

    def _validation_share(self, rows: int) -> float:
        """Return the share of a member's rows, so many, that early stopping sees."""
        given = self.settings()["validation_share"]
        return min(_VALIDATION, _JUDGED / rows) if _is_auto(given) else float(given)

    def architecture(self, rows: int = 0) -> Architecture:
        """Return what is trained, on a table of so many rows."""
        settings = self.settings()
        options: dict[str, Any] = {}
        if isinstance(self.network, str):
            options["hidden"] = tuple(self._by_size("hidden", rows))
        if self.network == "mc_dropout":
            options |= {name: settings[name] for name in ("dropout", "passes")}
        return Architecture(
            self.network,
            options,
            head=self._by_size("head", rows),
            floor=settings["spread_floor"],
            distribution=self.distribution,
            transform=self.target_transform,
            clip_features=bool(settings["clip_features"]),
            bins=int(self.bins),
        )

    def recipe(self, strength: float, rows: int, *, folded: bool = False) -> Recipe:
        """Return how it is trained, on so many rows for each member.

        With ``folded`` early stopping looks at the pools of all rows.
        """
        settings = self.settings()
        size, epochs = self.batch_size, self.epochs
        if size == "auto":  # a power of 2 that makes 32 steps or more of an epoch
            size = max(32, min(512, 1 << int(math.log2(max(1, rows / 32)))))
        if epochs == "auto":
            epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, _MOST_PASSED // rows))
        own = {"score": self.loss, "strength": strength}
        own |= {"batch_size": size, "epochs": epochs}
        if self.patience == "auto":
            judged = folded and isinstance(self.network, str)
            own["patience"] = _FOLDED_PATIENCE if judged else _OWN_PATIENCE
        names = settings.keys() & Recipe.__dataclass_fields__.keys()
        shared = {name: settings[name] for name in names}
        return Recipe(**(shared | own))


def _is_auto(value: Any) -> bool:  # noqa: ANN401
    """Whether this is left to the estimator; arrays are no text."""
    return isinstance(value, str) and value == "auto"


def _is_learner(value: Any) -> bool:  # noqa: ANN401
    """Whether this is the name of a family, or a regressor of scikit-learn's kind."""
    if isinstance(value, str):
        return value in ("network", "boosting")
    needed = ("fit", "predict", "get_params")
    return not isinstance(value, type) and all(hasattr(value, n) for n in needed)


def _is_device(value: Any) -> bool:  # noqa: ANN401
    """Whether torch knows this device, and has it if it is a CUDA device."""
    try:
        return torch.device(value).type != "cuda" or torch.cuda.is_available()
    except (RuntimeError, TypeError):
        return False


def _is_list(values: Any, kind: type) -> bool:  # noqa: ANN401
    """Whether these are one number of a kind or more."""
    if values is None or isinstance(values, str | Real) or len(values) == 0:
        return False
    return all(isinstance(value, kind) for value in values)


def _whole(low: int, high: int, *, auto: bool = False) -> Rule:
    """Make the rule of a whole number."""

    def fits(value: Any) -> bool:  # noqa: ANN401
        whole = isinstance(value, Integral) and low <= int(value) <= high
        return whole or (auto and _is_auto(value))

    rule = f"be a whole number from {low} to {high}"
    return fits, f'{rule}, or "auto"' if auto else rule


def _one_of(*choices: str | None) -> Rule:
    names = ", ".join(f'"{choice}"' for choice in choices if choice)
    return lambda value: value in choices, f"be one of {names}"


_SHARE: Rule = (
    lambda value: _is_auto(value) or (isinstance(value, Real) and 0 < float(value) < 1),
    'lie strictly between 0 and 1, or be "auto"',
)


def _number(*others: str | None) -> Rule:
    """Make the rule of a number, or one of these."""
    words = [f'"{other}"' if other else "None" for other in others]

    def fits(value: Any) -> bool:  # noqa: ANN401
        if value is None or _is_auto(value):
            return value in others
        return isinstance(value, Real) and not isinstance(value, bool)

    return fits, " or ".join(["be a number", *words])


# For each setting whether a value fits, and what it must do. A slip of the finger in
# members or folds must not fill the memory.
_RULES: Mapping[str, Rule] = {
    "members": _whole(1, 10_000, auto=True),
    "folds": _whole(2, 10_000),
    "bins": _whole(0, 1024),
    "distribution": _one_of("pooled", "mixture", "moment_matched"),
    "strength_rule": _one_of("crps", "nll"),
    "regularize_on": _one_of("train", "held_out"),
    "recalibrate_on": _one_of("auto", "out_of_fold", "held_out", "train", None),
    "held_out_share": _SHARE,
    "validation_share": _SHARE,
    "learners": (
        lambda value: (
            isinstance(value, tuple | list)
            and len(value) > 0
            and all(map(_is_learner, value))
        ),
        'be a list of "network", "boosting" and regressors (objects, not classes)',
    ),
    "hidden": (
        lambda value: _is_auto(value) or _is_list(value, Integral),
        'be whole numbers, as (64,), or "auto"',
    ),
    "strength": (
        lambda value: value == "auto" or isinstance(value, Real),
        'be a number or "auto"',
    ),
    **dict.fromkeys(("epochs", "batch_size"), _number("auto")),
    **dict.fromkeys(("learning_rate", "weight_decay"), _number()),
    **dict.fromkeys(("spread_floor", "dropout", "passes", "adversarial"), _number()),
    "patience": _number("auto", None),
    "gradient_clip": _number(None),
    "strength_grid": (lambda value: _is_list(value, Real), "be a list of numbers"),
    "loss": (
        lambda value: value not in ("squared_error", "absolute_error"),
        'look at the spread, as "nll" and "crps" do',
    ),
    "network": (
        lambda value: not isinstance(value, nn.Module),
        "be a name or a function of the number of features that makes a module",
    ),
    "head": (
        lambda value: isinstance(value, str) or callable(value),
        "be a name or a head",
    ),
    "device": (
        lambda value: _is_auto(value) or _is_device(value),
        'be "auto", "cpu", or another device that torch has here',
    ),
}


def _plan(members: Blend, pool: Pool, recalibrator: Any) -> str:  # noqa: ANN401
    """Say what was trained and what the map learned from."""
    names, design = [], pool.designs[0]
    for family, share in zip(members.families, members.shares, strict=True):
        kind = "network" if isinstance(family, Networks) else "boosted-tree model"
        kind = f"clone of {family.name}" if isinstance(family, Clones) else kind
        plural = kind.replace("clone", "clones") if " of " in kind else f"{kind}s"
        name = f"{len(family):,} {plural if len(family) > 1 else kind}"
        if isinstance(family, Networks) and family.architecture.head != "gaussian":
            name += f" (head {family.architecture.head})"
        names.append(f"{name} (weight {share:g})" if share < 1 else name)
    trained, kind = " and ".join(names), "that were held out"
    if design.unseen is not None:
        of_each = " of each" if len(names) > 1 else ""
        trained += f", {design.pool_size}{of_each} for each row that have not seen it"
        kind = "out of fold"
    elif np.isin(design.calibration, design.rows[0]).any():
        kind = "that they learned from too"
    if recalibrator is None:
        return f"{trained}; no map."
    name = recalibrator if isinstance(recalibrator, str) else "your own"
    return f"{trained}; map {name}, from {len(design.calibration):,} rows {kind}."


def _few_values(table: Table) -> tuple[float, ...] | None:
    """Values of a target that takes few, and half as many beyond; None for others."""
    grid, low, high = table.grid, float(table.y.min()), float(table.y.max())
    if grid is None or grid.step is None:
        return None
    count = round((high - low) / grid.step)
    if count > _MOST_STEPS:
        return None
    more = count // 2 + 1  # a new row may lie beyond all that were learned from
    values = low + grid.step * np.arange(-more, count + more + 1)
    least, most = table.bounds or (-np.inf, np.inf)
    # What was never negative, or piles up at an end, goes no further.
    if low >= 0 or grid.lower_cap is not None:
        least = max(least, low if grid.lower_cap is not None else 0.0)
    if grid.upper_cap is not None:
        most = min(most, high)
    kept = values[(values >= least - 1e-9) & (values <= most + 1e-9)]
    return tuple(kept.tolist())


def training_device(model: CalibratedRegressor) -> str:
    """Return the device, for each process of a machine its own."""
    device = str(model.device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return local_device(device) if model.distributed else device


def _common_seed(model: CalibratedRegressor, table: Table, seed: int) -> int:
    """Return the first process's seed, if all fit the same model to the same rows."""
    device = torch.device(training_device(model))
    team = join_team(device.type)
    settings = model.settings()
    del settings["random_state"]  # the first one's counts
    blocks = table.blocks
    found = fingerprint_of(
        table.x, table.y, table.weights, blocks.labels, blocks.time, *plain(settings)
    )
    team.check_alike(found, name="rows and parameters", device=device)
    return int(team.agreed(torch.tensor(seed, device=device)))
