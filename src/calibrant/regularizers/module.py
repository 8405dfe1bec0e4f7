"""The regularizer as a module: one line in any training loss."""

import inspect
import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from calibrant._distributed import Group, announced, gather_rows, gathers
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import as_distribution
from calibrant.distributions.normal import Gaussian
from calibrant.protocols import PitValues, Regularizer, Sorter
from calibrant.regularizers import REGULARIZERS, STRENGTHS
from calibrant.regularizers.divergences import cumulative_kl, survival_factors
from calibrant.sorting import SORTERS
from calibrant.validation import (
    ArrayLike,
    InputError,
    as_float_tensor,
    as_pit,
    as_target,
    check_rows_last,
    check_shapes,
    find_part,
)

#: Here z ends, as in every location-scale family; the density underflowed long before.
_FARTHEST = 1e15
#: Up to this z the survival value is a normal number, and its plain logarithm precise.
_LAST_PLAIN_LOG = {torch.float32: 12.0, torch.float64: 37.0}


class QuantileRegularizer(nn.Module):
    r"""Quantile regularization of any model that predicts a distribution.

    .. math:: \mathcal{L} = \mathrm{NLL} + \lambda \, R(F_1(y_1), \dots, F_n(y_n)) .

    Parameters
    ----------
    regularizer
        A name from ``REGULARIZERS`` or a function of PIT values ``(..., n) -> (...)``.
    strength
        :math:`\lambda`; by default the one the entry is made for, 20 for
        ``"cumulative_kl"``. Below 0 miscalibration is left to a later map:
        ``"pit_entropy"`` at -1 is quantile recalibration training.
    sort
        A name from ``SORTERS`` or a function; the hard sort by default. For another
        temperature pass ``functools.partial(neural_sort, temperature=0.01)``.
    memory
        Keep this many detached PIT values of earlier batches beside the current ones,
        in training mode only, so that small batches still see a whole distribution.
        The gradient of the current rows is scaled up by (n + kept) / n.
    dim
        The axis of the rows. The default fits ``(n,)`` and stacks ``(members, n)``;
        for several targets ``(n, targets)`` use 0.
    validate
        Look for NaN, values outside [0, 1] and a shape of ``(n, 1)``; on a GPU that
        waits for the device. Without it NaN gives NaN.
    distributed
        Look at the rows of all processes of ``torch.distributed``. None does so in
        training mode with gradients if a process group of two or more is initialized;
        True always; False never. Batches may differ in size or be empty. All processes
        must call it equally often.
    process_group
        Which processes; None for all.

    Notes
    -----
    Under autocast everything is computed in float32. With several processes the mean of
    their gradients, as ``DistributedDataParallel`` takes it, is that of the batch; a
    process that ends or hangs gives the others a ``LostRankError``.

    References
    ----------
    Utpala and Rai (2020), *Quantile Regularization*, arXiv:2002.12860.

    Examples
    --------
    >>> import torch
    >>> regularizer = QuantileRegularizer()
    >>> mean = torch.zeros(4, requires_grad=True)
    >>> distribution = torch.distributions.Normal(mean, 1.0)
    >>> y = torch.tensor([2.0, 1.0, 3.0, 2.0])
    >>> nll = -distribution.log_prob(y).mean()
    >>> loss = nll + regularizer(distribution, y)
    >>> loss.backward()
    >>> bool((mean.grad < 0).all())  # both terms ask for a larger mean
    True
    """

    _recent: Tensor | None

    def __init__(
        self,
        regularizer: str | Regularizer = "cumulative_kl",
        *,
        strength: float | None = None,
        sort: str | Sorter | None = None,
        memory: int = 0,
        dim: int = -1,
        validate: bool = True,
        distributed: bool | None = None,
        process_group: Group = None,
    ) -> None:
        super().__init__()
        if memory < 0 or int(memory) != memory:
            raise InputError(f"memory must be a whole number >= 0, got {memory}.")
        self.strength = _checked_strength(regularizer, strength)
        self.memory, self.dim, self.validate = memory, dim, validate
        self.distributed, self.process_group = distributed, process_group
        self._regularizer: Callable[[PitValues], Tensor] = _with_sort(regularizer, sort)
        self._name = regularizer
        # Not saved: a loaded model starts with an empty queue of any shape.
        self.register_buffer("_recent", None, persistent=False)

    def forward(self, prediction: Any, y: ArrayLike | None = None) -> Tensor:  # noqa: ANN401
        """Return strength times the regularizer, shape ``(...)``.

        ``prediction`` is a torch distribution with a ``cdf``, one of ours, ``(mean,
        std)``, or PIT values (then without ``y``); it and ``y`` are ``(..., n)``.
        """
        value = self._fused(prediction, y)
        if value is None:
            value = self._remembering(self._rows(prediction, y)[0])
        return value if self.strength == 1 else self.strength * value

    def extra_repr(self) -> str:
        """Settings, for the printed module."""
        settings = f"regularizer={self._name!r}, strength={self.strength:g}"
        return f"{settings}, memory={self.memory}"

    def _gathers(self) -> bool:
        group = self.process_group
        return gathers(self.distributed, training=self.training, group=group)

    def _fused(self, prediction: object, y: ArrayLike | None) -> Tensor | None:
        """The closed form of Gaussians, None where it does not apply."""
        fits = self._regularizer is cumulative_kl and self.dim == -1
        remembers = self.memory and self.training
        # A compiler fuses by itself.
        if not fits or remembers or torch.compiler.is_compiling() or self._gathers():
            return None
        if y is None or isinstance(prediction, Tensor | PitValues):
            return None
        distribution = as_distribution(prediction)
        if type(distribution) is not Gaussian:
            return None
        target = self._checked_target(distribution, y)
        value = gaussian_cumulative_kl(distribution.mean, distribution.stddev, target)
        if self.validate and bool(value.isnan().any()):
            _check_finite(distribution.cdf(target))
        return value

    def _rows(
        self, prediction: object, y: ArrayLike | None, *more: ArrayLike | None
    ) -> tuple[PitValues, Tensor]:
        """PIT values ``(..., n)`` and keys ``(keys, ..., n)``, of all processes."""
        if not self._gathers():
            return self._own_rows(prediction, y, *more)
        given = [part for part in (y, prediction) if isinstance(part, Tensor)]
        device = given[0].device if given else torch.device("cpu")
        with announced(device, self.process_group):
            pit, keys = self._own_rows(prediction, y, *more, part=True)
        values = torch.cat([torch.stack(list(pit)), keys])
        single_rows = values.ndim < 3 or self.dim != -1 or not self.validate
        joined = gather_rows(values, self.process_group, single_rows=single_rows)
        fields = len(PitValues._fields)
        return PitValues(*joined[:fields].unbind(0)), joined[fields:].detach()

    def _own_rows(
        self, prediction: object, y: ArrayLike | None, *, part: bool = False
    ) -> tuple[PitValues, Tensor]:
        pit, _ = self._pit(prediction, y, part=part)
        return pit, pit.cdf.new_empty(0, *pit.cdf.shape)

    def _pit(
        self, prediction: object, y: ArrayLike | None, *, part: bool
    ) -> tuple[PitValues, AbstractDistribution | None]:
        """PIT values with rows last, maybe ``part`` of a batch; the distribution."""
        distribution = None
        if isinstance(prediction, Tensor | PitValues) and y is None:
            single = self.dim != -1 or not self.validate or part
            pit = as_pit(prediction, validate=self.validate, single_rows=single)
        elif isinstance(prediction, Tensor | PitValues) or y is None:
            raise InputError(
                f"got a {type(prediction).__name__} {'without' if y is None else 'and'}"
                " y. Call regularizer(distribution, y), or regularizer(pit)."
            )
        else:
            distribution = as_distribution(prediction)
            pit = distribution.pit(self._checked_target(distribution, y, part=part))
            learns = distribution._trained and torch.is_grad_enabled()
            if learns and not pit.cdf.requires_grad:
                raise InputError(
                    "a regularizer needs a distribution whose cdf has a gradient, and "
                    f"{distribution!r} has none. Predict means and spreads "
                    "(GaussianMixture), or a QuantileTable."
                )
            if self.validate:
                _check_finite(pit.cdf)
        return pit.map(lambda values: values.movedim(self.dim, -1)), distribution

    def _checked_target(
        self, distribution: AbstractDistribution, y: ArrayLike, *, part: bool = False
    ) -> Tensor:
        """Targets that fit the distribution and make a batch of rows with it."""
        target = as_target(y) if self.validate else as_float_tensor(y, name="y")
        check_shapes(target.shape, distribution.batch_shape, name="y")
        shape = max(target.shape, distribution.batch_shape, key=len)
        if self.dim == -1 and self.validate and not part:
            check_rows_last(shape, name="the distribution's batch shape")
        if len(shape) == 0 or (shape.numel() == 0 and not part):
            raise InputError(
                "a regularizer compares many rows, got a distribution and a target of "
                f"shape {tuple(shape)}. Give it the whole batch at once."
            )
        return target

    def _remembering(self, pit: PitValues) -> Tensor:
        """Value of the batch and of what is kept of earlier ones."""
        if not (self.memory and self.training):
            return self._regularizer(pit)
        recent, joined = self._recent, pit
        if recent is not None and recent.shape[1:-1] == pit.cdf.shape[:-1]:
            pairs = zip(pit, recent.unbind(0), strict=True)
            joined = PitValues(*(torch.cat(pair, -1) for pair in pairs))
        value = self._regularizer(joined)
        newest = torch.stack(list(joined))[..., : self.memory].detach()
        # One diverged batch must not stay in the queue and spoil the next ones.
        if newest.isfinite().all():
            self._recent = newest
        # Only the n current rows carry gradient, each with weight 1 / (n + kept).
        scale = joined.cdf.shape[-1] / pit.cdf.shape[-1]
        return value.detach() + scale * (value - value.detach())


def _checked_strength(regularizer: str | Regularizer, strength: float | None) -> float:
    """Return the given strength, else the one that the table's entry is made for."""
    if strength is None:
        if not isinstance(regularizer, str):
            raise InputError(
                "strength must be given with a regularizer of your own "
                f"({regularizer!r}); only names have a default strength."
            )
        return STRENGTHS.get(regularizer, 1.0)
    if not math.isfinite(strength):
        raise InputError(f"strength must be finite, got {strength}.")
    return float(strength)


def _with_sort(regularizer: str | Regularizer, sort: str | Sorter | None) -> Any:  # noqa: ANN401
    """Return the regularizer as a function of PIT values, its sort bound to it."""
    function: Any = find_part(regularizer, REGULARIZERS, name="regularizer")
    if sort is None:
        return function
    accepted = inspect.signature(function).parameters.get("sort")
    if accepted is None:
        raise InputError(
            f"the regularizer {regularizer!r} does not sort, so sort={sort!r} has no "
            "effect on it. Leave sort out."
        )
    sorter = find_part(sort, SORTERS, name="sort")
    return function if accepted.default is sorter else partial(function, sort=sorter)


def _check_finite(cdf: Tensor) -> None:
    """Refuse the PIT values of a model that diverged."""
    bad = torch.isnan(cdf)
    if bad.any():
        raise InputError(
            f"the predicted distribution must be finite: {int(bad.sum())} of "
            f"{cdf.numel()} PIT values are NaN, most often because training diverged. "
            "Lower the learning rate, clip gradients, or look for NaN in the inputs."
        )


def gaussian_cumulative_kl(mean: Tensor, stddev: Tensor, y: Tensor) -> Tensor:
    r"""Cumulative KL of Gaussian PIT values, rows on the last axis.

    With :math:`z = (y - \mu) / \sigma`, :math:`S = 1 - \Phi(z)` and :math:`c_k` the
    factor of the survival value at place :math:`k`,

    .. math::
        \mathrm{CKL}_n = \frac12 + \frac1n \sum_i S_i \ln S_i - \sum_i c_{k(i)} S_i,
        \qquad
        \frac{\partial\, \mathrm{CKL}_n}{\partial z_i}
            = \frac{\varphi(z_i)}{n} \bigl(n c_{k(i)} - 1 - \ln S_i\bigr) ,

    and rows with equal :math:`z` share the mean of their factors. It agrees with the
    plain form to rounding.
    """
    value: Tensor = _GaussianCumulativeKl.apply(mean, stddev, y)  # type: ignore[no-untyped-call]
    return value


class _GaussianCumulativeKl(torch.autograd.Function):
    """The value ``(...)``; the slope ``(..., n)`` is found along with it."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, stddev: Tensor, y: Tensor) -> Tensor:  # noqa: ANN401
        z = (y - mean).div_(stddev)
        n, last = z.shape[-1], _LAST_PLAIN_LOG[z.dtype]
        entries = _by_rank(_table(n, z.dtype, z.device), z)
        near = bool((z.abs() <= last).all())  # False for NaN
        if not near:
            z.clamp_(-_FARTHEST, _FARTHEST)
        twice_survival = torch.erfc(z * math.sqrt(0.5))
        logarithm = twice_survival.log()
        if not near:
            # Ten times the price. Only far values take it: no row's last digits
            # depend on how far another member's rows are.
            precise = torch.special.log_ndtr(-z).add_(math.log(2))
            logarithm = torch.where(z.abs() <= last, logarithm, precise)
        bracket = entries.sub_(logarithm)
        total = torch.addcmul(twice_survival, twice_survival, bracket).sum(-1)
        slope = z.square().mul_(-0.5).exp_().mul_(bracket).div_(stddev)
        slope.mul_(-1 / (math.sqrt(2 * math.pi) * n))
        ctx.save_for_backward(mean, stddev, y, z, slope)
        return torch.add(total.new_full((), 0.5), total, alpha=-0.5 / n)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        *inputs, z, slope = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph=True: that of the plain form
            with torch.enable_grad():
                # Aliases: a path from one input to another is not ours to follow.
                aliases = [part.view_as(part) for part in inputs]
                mean, stddev, y = aliases
                value = cumulative_kl(Gaussian(mean, stddev).pit(y))
            learned = [part for part, want in zip(aliases, wanted, strict=True) if want]
            found = iter(
                torch.autograd.grad(value, learned, gradient, create_graph=True)
            )
            return tuple(next(found) if want else None for want in wanted)
        # Where shapes or dtypes were broadcast, torch reduces what is returned.
        by_mean = slope * gradient.unsqueeze(-1)
        by_stddev = by_mean * z if wanted[1] else None
        return by_mean, by_stddev, -by_mean if wanted[2] else None


@lru_cache(maxsize=16)
def _table(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The numbers n c_k - 1 + ln 2, rounded once."""
    # What inference mode makes could not be used in training afterwards.
    with torch.inference_mode(mode=False):
        return (n * survival_factors(n) + (math.log(2) - 1)).to(device, dtype)


def _by_rank(table: Tensor, values: Tensor) -> Tensor:
    """Give each value ``(..., n)`` the entry of its rank, equal values their mean."""
    # numpy sorts a stack in half of torch's time.
    on_cpu = values.device.type == "cpu"
    order = torch.from_numpy(values.numpy().argsort(-1)) if on_cpu else values.argsort()
    ordered, entries = values.gather(-1, order), table.expand_as(values)
    starts_anew = ordered[..., 1:] != ordered[..., :-1]
    if not starts_anew.all():
        run = torch.nn.functional.pad(starts_anew.cumsum(-1), (1, 0))
        zeros = torch.zeros_like(ordered)
        total = zeros.scatter_add(-1, run, entries)
        count = zeros.scatter_add(-1, run, torch.ones_like(ordered))
        entries = (total / count.clamp_min(1)).gather(-1, run)
    return torch.empty_like(ordered).scatter_(-1, order, entries)
