"""A scikit-learn regressor whose uncertainty can be trusted."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from calibrant._checks import ArrayLike
from calibrant.contracts import (
    Head,
    Recalibrator,
    Regularizer,
    Sorter,
    TargetTransform,
)
from calibrant.distributions.base import AbstractDistribution
from calibrant.estimators._input import check_arrays, read_features, read_table
from calibrant.estimators._predictions import LawPredictions
from calibrant.estimators._procedure import fit_model
from calibrant.estimators._refresh import refreshed
from calibrant.estimators._saving import Saved
from calibrant.estimators._settings import check_settings, paper_settings
from calibrant.estimators._state import stored_parameters
from calibrant.estimators._together import common_seed
from calibrant.scores import Score

__all__ = ["CalibratedRegressor"]


class CalibratedRegressor(
    Saved,
    LawPredictions,
    RegressorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Neural regression with calibrated predictive distributions, for scikit-learn.

    Many small networks are trained side by side, pooled, and the pool is recalibrated
    with targets that it has not seen. By default that costs no rows
    (``recalibrate_on="out_of_fold"``): the rows are cut into ``folds`` again and again,
    ``members`` times, and each network learns without one fold of one partition. So
    each row has ``members`` networks that have not seen it. Their pool is the row's
    out-of-fold distribution; one map is learned from the PIT values of all of these,
    and the prediction is that map over the pool of all ``members * folds`` networks.

    All networks learn for the same number of epochs: that with the best CRPS of the
    out-of-fold pools. The pool that is served is larger than those that were measured,
    and so more accurate; the PIT values are extrapolated to its size first.

    Parameters
    ----------
    network
        ``"deep_ensemble"``, ``"mc_dropout"``, or a function of the number of features
        that makes a new ``nn.Module``: it turns standardized features ``(n, d)`` into a
        law of the standardized target (ours, torch's, or ``(mean, std)``).
    members
        Networks of the ensemble; with ``"out_of_fold"`` those that have not seen a row,
        so that ``members * folds`` are trained.
    hidden
        Units of each hidden layer.
    head
        A name from ``HEADS``, or an object: the family of each member's law.
    spread_floor
        Least spread of a member's law, in standard deviations of the target.
    dropout, passes
        Of ``"mc_dropout"``: share of units left out, and passes in prediction.
    bins
        Of a piecewise-linear encoding that the first layer sees beside each feature, at
        most 1024 for all of them; 0 for none.
    law
        How networks are pooled: ``"pooled"``, a normal distribution whose variance
        counts their disagreement three times (with heads that are not Gaussian their
        mixture); ``"mixture"``; or ``"moment_matched"``, as in the paper, for the
        normal distribution of its moments.
    target_transform
        A name from ``TRANSFORMS`` (``"log"``, ``"box_cox"``, ...), or an object. The
        law is that of the target itself, and so is its likelihood.
    clip_features
        Show the networks no feature beyond the range of the training by more than that
        range: it counts as the limit. A few training cells beyond any reason, as 1e12
        among numbers of order 1, do not count as its range. False for none of it.
    bounds
        Least and largest possible target, None for none. Laws are cut there and scaled
        up before the recalibration. If targets stand on a bound, the law has mass of
        its own there instead, and ``log_prob`` is the logarithm of that (``Censored``).
    loss
        ``"nll"``, ``"crps"``, ``"beta_nll"``, or another name from ``SCORES``.
    regularizer, sort, conditional
        See ``Recipe``.
    strength
        Of the regularizer, or ``"auto"``: the one with the smallest calibration error
        on rows that were not seen, among those of ``strength_grid`` whose CRPS there
        is at most 1.05 times the best. The sweep is kept in ``strength_path_``; its
        error of the chosen strength is optimistic. With ``adversarial`` above 0 a
        strength weighs half as much against the loss.
    strength_grid, strength_rule
        Of ``"auto"``. With ``"nll"`` the rule is NLL at most 0.05 nats above the best.
    adversarial
        Share of each input's range for adversarial training; 0 for none. The rows that
        it adds count in the loss and not in the regularizer, so above 0 the strength
        weighs half as much; see ``Recipe``.
    recalibrator
        A name from ``RECALIBRATORS``, or an unfitted object; None for none. ``"auto"``
        is ``"beta"`` for fewer than 300 calibration rows and ``"smooth"`` for more.
    recalibrate_on
        Where its PIT values come from: ``"out_of_fold"``, ``"held_out"`` (a part that
        no member learns from), ``"train"`` (the paper's, too narrow), or None.
        ``"auto"`` is ``"out_of_fold"`` up to 20,000 rows and ``"held_out"`` beyond.
    folds
        Of each partition of ``"out_of_fold"``.
    held_out_share
        Share of rows that ``"held_out"`` keeps for the map.
    epochs, optimizer, learning_rate, weight_decay, schedule
        See ``Recipe``.
    batch_size
        Rows of each step. ``"auto"``: about 1/32 of a member's rows, a power of 2 from
        32 to 512.
    gradient_clip
        Largest norm of a member's gradient, or None.
    patience
        Epochs without improvement before training ends: with ``"out_of_fold"`` of the
        pools' CRPS, and all members get the weights of its best epoch back; otherwise
        of the score of each member's own held-out rows. None for no early stopping.
    validation_share
        Share of each member's rows that early stopping looks at, but not with
        ``"out_of_fold"``.
    device
        ``"auto"``: a CUDA device if there is one. Otherwise a name of torch.
    distributed
        Train with all processes that ``torchrun`` has started, each with its part of
        every batch (``DistributedDataParallel``). All call ``fit`` with the same rows
        and get the same model, that of one process to rounding, but for dropout masks
        and batch normalization of your own modules. The first one's seed counts; it
        alone shows progress and calls callbacks. If one ends or hangs, the others raise
        ``LostRankError`` (a group that is made here waits for 10 minutes).
    callbacks
        Called with an ``EpochState`` after each epoch; True ends the training.
    progress
        Show a progress bar; None shows one on a terminal only.
    random_state
        With the same number the same model, bit for bit on the same machine.

    Attributes
    ----------
    strength_
        Strength of the model.
    strength_path_
        The sweep of ``strength="auto"``, a ``StrengthPath``.
    history_
        Curves of the training, a list of ``History``.
    fitted_parameters_
        The parameters that it was fitted with, which ``save`` writes.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    What is guaranteed. ``"held_out"`` with ``"empirical"`` has the guarantee of split
    conformal prediction: if rows are exchangeable and PIT values do not tie, a central
    interval of coverage c covers a new target with probability c, up to
    :math:`2 / (m + 1)` for m held-out rows, on average over rows, not for each x. The
    pool of ``"out_of_fold"`` has no such guarantee: a row's pool and the pool that is
    served differ in size, and the correction for it is an extrapolation. Its coverage
    is measured, see the manual.

    Rules that keep it honest: rows with equal features share a fold; scaling of the
    targets uses a member's own rows only; groups are never cut; with time, folds are
    stretches of time. All rows together choose the number of epochs, the edges of the
    bins (from features alone) and a power of a target transform: numbers that many rows
    share.

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
    >>> model.predict_distribution(X[:3]).batch_shape
    torch.Size([3])
    """

    def __init__(
        self,
        *,
        network: str | Callable[[int], nn.Module] = "deep_ensemble",
        members: int = 5,
        hidden: Sequence[int] = (64, 64),
        head: str | Head = "gaussian",
        spread_floor: float = 1e-3,
        dropout: float = 0.1,
        passes: int = 20,
        bins: int = 16,
        law: Literal["pooled", "mixture", "moment_matched"] = "pooled",
        target_transform: str | TargetTransform | None = None,
        clip_features: bool = True,
        bounds: tuple[float, float] | None = None,
        loss: str | Score = "nll",
        regularizer: str | Regularizer = "cumulative_kl",
        strength: float | Literal["auto"] = 0.0,
        strength_grid: Sequence[float] = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
        strength_rule: Literal["crps", "nll"] = "crps",
        sort: str | Sorter | None = None,
        conditional: Sequence[str] = (),
        adversarial: float = 0.0,
        recalibrator: str | Recalibrator | None = "auto",
        recalibrate_on: str | None = "auto",
        folds: int = 5,
        held_out_share: float = 0.2,
        epochs: int = 120,
        batch_size: int | Literal["auto"] = "auto",
        optimizer: Literal["adam", "adamw"] = "adam",
        learning_rate: float = 5e-3,
        weight_decay: float = 0.0,
        schedule: str | Callable[[float], float] = "cosine",
        gradient_clip: float | None = 10.0,
        patience: int | None = 30,
        validation_share: float = 0.1,
        device: str = "auto",
        distributed: bool = False,
        callbacks: Sequence[Callable[..., bool | None]] = (),
        progress: bool | None = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.network = network
        self.members = members
        self.hidden = hidden
        self.head = head
        self.spread_floor = spread_floor
        self.dropout = dropout
        self.passes = passes
        self.bins = bins
        self.law = law
        self.target_transform = target_transform
        self.clip_features = clip_features
        self.bounds = bounds
        self.loss = loss
        self.regularizer = regularizer
        self.strength = strength
        self.strength_grid = strength_grid
        self.strength_rule = strength_rule
        self.sort = sort
        self.conditional = conditional
        self.adversarial = adversarial
        self.recalibrator = recalibrator
        self.recalibrate_on = recalibrate_on
        self.folds = folds
        self.held_out_share = held_out_share
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.gradient_clip = gradient_clip
        self.patience = patience
        self.validation_share = validation_share
        self.device = device
        self.distributed = distributed
        self.callbacks = callbacks
        self.progress = progress
        self.random_state = random_state

    @classmethod
    def paper(
        cls,
        network: Literal["mc_dropout", "deep_ensemble"] = "mc_dropout",
        *,
        strength: float = 20.0,
        **changes: Any,  # noqa: ANN401  (any other parameter)
    ) -> Self:
        """Make the models of the paper, exactly as its protocol says.

        Two hidden layers of 128 units, Adam with a learning rate of 0.01, 100 epochs of
        batches of 512, a least spread of 0.1, the moment-matched normal law, no
        recalibration. MC dropout: 0.25, ten passes. Deep ensemble: five members with
        adversarial training. For its comparison, isotonic recalibration, add
        ``recalibrator="isotonic", recalibrate_on="train"``; for its sort,
        ``sort="neural"``.

        Parameters
        ----------
        network
            Which of its two base models.
        strength
            Of the regularizer: 20 in the paper, 0 for its base models.
        **changes
            Other parameters of the estimator.

        Examples
        --------
        >>> CalibratedRegressor.paper("deep_ensemble", strength=0).adversarial
        0.01
        """
        settings = paper_settings(network) | {"strength": strength}
        return cls(**(settings | changes))

    def fit(
        self,
        X: Any,  # noqa: ANN401  (an array or a data frame)
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Any | None = None,  # noqa: ANN401  (labels of any type)
        time: Any | None = None,  # noqa: ANN401  (anything that can be ordered)
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

        Raises
        ------
        KeyboardInterrupt
            The training was interrupted by hand (Ctrl-C). After an epoch or more, the
            model can still predict, with its best weights so far.
        """
        check_settings(self)
        table = read_table(
            self, X, y, sample_weight=sample_weight, groups=groups, time=time
        )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        seed = common_seed(self, table, seed)
        outcome = fit_model(self, table, seed)
        histories = outcome.trained.histories
        if any(each.interrupted and not each.loss for each in histories):
            raise KeyboardInterrupt  # not one epoch: there is no best model so far
        self.strength_, self.history_ = outcome.strength, histories
        self.__dict__.pop("strength_path_", None)  # that of a former fit
        if outcome.path is not None:
            self.strength_path_ = outcome.path
        self.model_ = outcome.fitted
        self.fitted_parameters_ = stored_parameters(self)
        if any(each.interrupted for each in histories):
            raise KeyboardInterrupt  # who goes on must know that it is half trained
        return self

    def predict_distribution(self, X: Any) -> AbstractDistribution:  # noqa: ANN401
        """Predict the law of each row, batch shape ``(n,)``, float64.

        It has ``mean``, ``stddev``, ``cdf``, ``quantile``, ``interval``, ``sample``,
        ``log_prob``, ``crps``.

        Parameters
        ----------
        X
            Features, shape ``(n, d)``.
        """
        check_is_fitted(self, "model_")
        law: AbstractDistribution = self.model_.law(read_features(self, X))
        return law

    def refresh(
        self,
        X: Any,  # noqa: ANN401
        y: ArrayLike,
        *,
        recalibrator: str | Recalibrator | None = None,
    ) -> "CalibratedRegressor":
        """Learn the calibration again from newer rows, without training.

        All members are one law then, corrected by one map that these rows have taught.

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
        x, target = check_arrays(read_features(self, X), np.asarray(y))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return refreshed(self, x, target, recalibrator, seed)
