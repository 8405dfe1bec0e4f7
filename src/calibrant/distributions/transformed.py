"""The law of a target whose transform has a known law."""

import torch
from torch import Tensor

from calibrant._checks import pit_from_cdf
from calibrant.contracts import PitValues, TargetTransform
from calibrant.distributions._between import on_atoms
from calibrant.distributions._derived import DerivedDistribution
from calibrant.distributions._level_integrals import (
    LevelIntegrals,
    even_rule,
    quantiles_at,
    refuse_endless_crps,
    rule_for,
)
from calibrant.distributions._outline import Around, Bumps, Tails
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.recalibrated import Recalibrated
from calibrant.distributions.student_t import StudentT

__all__ = ["Transformed"]


class Transformed(DerivedDistribution):
    r"""Law of :math:`Y = g^{-1}(Z)` for a law of :math:`Z`, for each row.

    A model that is trained on transformed targets :math:`g(y)` predicts laws of those.
    This is its prediction in the unit of the targets themselves:

    .. math::
        F_Y(y) = F_Z(g(y)), \qquad
        Q_Y(p) = g^{-1}(Q_Z(p)), \qquad
        \log f_Y(y) = \log f_Z(g(y)) + \log g'(y) .

    The likelihood is exact, and comparable with that of models that were trained
    without the transform. Outside of the support of g the cdf is 0 or 1 and
    ``log_prob`` is ``-inf``.

    ``mean``, ``variance`` and ``crps`` are integrals over levels as in
    :class:`Recalibrated`. For a normal law under ``log`` (the log-normal law), with
    :math:`\sigma` the standard deviation of the logarithm, their relative error is
    below 1e-6 for :math:`\sigma \le 8` (mean and crps) and :math:`\sigma \le 4`
    (variance). What lies in tails below 2e-38 is put there, which makes heavier laws
    too small: by 16 % at :math:`\sigma = 12` and 6. A moment whose integrand does not
    even fall there is ``inf``: every moment of Student's t under ``log``, the mean of a
    Laplace law of scale 1 or more, and that of a log-normal law with
    :math:`\sigma > 13`, which is finite but above 1e36. (Student's t is told from a
    normal law up to 100 degrees of freedom; of others only what shows in tails of
    2e-38 is known, in float64 of 1e-300.) ``crps`` then raises.

    Parameters
    ----------
    base
        The law of :math:`Z`, of any batch shape.
    transform
        The map g: an entry of ``TRANSFORMS``, fitted, or your own ``TargetTransform``.

    Examples
    --------
    >>> from calibrant.distributions.gaussian import Gaussian
    >>> from calibrant.transforms import TRANSFORMS
    >>> law = Transformed(Gaussian([0.0, 1.0], 0.5), TRANSFORMS["log"]())
    >>> [round(value, 4) for value in law.quantile(0.5).tolist()]
    [1.0, 2.7183]
    >>> [round(value, 4) for value in law.mean.tolist()]
    [1.1331, 3.0802]
    >>> law.cdf([-1.0, 1e300]).tolist()
    [0.0, 1.0]
    """

    def __init__(self, base: AbstractDistribution, transform: TargetTransform) -> None:
        self._base, self._transform = base, transform

    @property
    def transform(self) -> TargetTransform:
        """The map g."""
        return self._transform

    def __getitem__(self, rows: slice | Tensor) -> "Transformed":
        """Select rows of the first batch axis."""
        return Transformed(self._base[rows], self._transform)

    @property
    def mean(self) -> Tensor:
        """Expectation of each row, shape ``batch_shape``; infinite as above."""
        return self._moments()[0].to(self.dtype)

    @property
    def variance(self) -> Tensor:
        """Variance of each row, shape ``batch_shape``; infinite as above."""
        return self._moments()[1].to(self.dtype)

    def _image(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Value and image in float64, both at the median outside of the support.

        The third says which values lie inside.
        """
        y = value.double()
        low, high = self._transform.support
        inside = (y > low) & (y < high)
        if not inside.all():
            middle = self._center().detach()
            y = torch.where(inside, y, middle)
        # A power of a large number may be none.
        limit = torch.finfo(torch.float64).max
        z = self._transform.forward(y).clamp(-limit, limit)
        return y, on_atoms(y, z, self._atoms(), self._base._atoms()), inside

    def _atoms(self) -> Tensor | None:
        atoms = self._base._atoms()
        if atoms is None:
            return None
        return self._transform.inverse(atoms.double()).to(self.dtype)

    def _pit(self, value: Tensor) -> PitValues:
        pit = self._pit_of(self._base, value)
        return pit.map(lambda part: part.to(self._answer_dtype(value)))

    def _pit_before(self, value: Tensor) -> PitValues | None:
        _, z, inside = self._image(value)
        before = self._base._pit_before(z)
        if before is None:
            return None
        pairs = zip(before, self._pit(value), strict=True)
        return PitValues(*(torch.where(inside, own, end) for own, end in pairs))

    def _pit_of(self, law: AbstractDistribution, value: Tensor) -> PitValues:
        """PIT values of the image in a law, 0 and 1 outside of the support."""
        _, z, inside = self._image(value)
        pit = law.pit(z)
        if inside.all():
            return pit
        above = value.double() >= self._transform.support[1]
        ends = pit_from_cdf(above.to(pit.cdf.dtype))
        pairs = zip(pit, ends, strict=True)
        return PitValues(*(torch.where(inside, own, end) for own, end in pairs))

    def _cdf(self, value: Tensor) -> Tensor:
        return self._pit(value).cdf

    def _survival(self, value: Tensor) -> Tensor:
        return self._pit(value).survival

    def _tails(self, value: Tensor, *, density: bool = False) -> Tails:
        with torch.no_grad():
            y, z, inside = self._image(value)
            cdf, survival, height = self._base._tails(z, density=density)
            if height is not None:
                height = height * self._transform.log_derivative(y).exp()
                height = torch.where(inside, height, 0.0)
            above = (value >= self._transform.support[1]).double()
        cdf = torch.where(inside, cdf, above)
        return Tails(cdf, torch.where(inside, survival, 1 - above), height)

    def _around(self, pit: PitValues) -> Around:
        around = self._base._around(pit)
        return Around(*(self._transform.inverse(each) for each in around))

    def _bumps(self) -> Bumps:
        centers, scales = self._base._bumps()
        # A bump that is wide before the transform may be narrow on one side after it.
        ends = [self._transform.inverse(centers + k * scales) for k in range(-2, 3)]
        widths = [(high - low) / 2 for low, high in zip(ends, ends[2:], strict=False)]
        return Bumps(torch.cat(ends[1:-1]), torch.cat(widths))

    def _log_prob(self, value: Tensor) -> Tensor:
        y, z, inside = self._image(value)
        slope, atom = self._transform.log_derivative(y), self._base._at_atom(z)
        if atom is not None:  # a probability has no unit
            slope = torch.where(atom, 0.0, slope)
        density = self._base.log_prob(z) + slope
        density = torch.where(inside, density, -torch.inf)
        return density.to(self._answer_dtype(value))

    def _quantile(self, level: Tensor) -> Tensor:
        z = self._base.quantile(level)
        return self._transform.inverse(z.double()).to(self.dtype)

    def _upper_quantile(self, survival: Tensor) -> Tensor:
        z = self._base._upper_quantile(survival)
        return self._transform.inverse(z.double()).to(self.dtype)

    def _sample(
        self, shape: tuple[int, ...], generator: torch.Generator | None
    ) -> Tensor:
        z = self._base._sample(shape, generator)
        drawn = self._transform.inverse(z.double()).to(self.dtype)
        # Rounding may reach the ends of the support, which have no likelihood.
        low, high = torch.tensor(self._transform.support).to(drawn)
        return drawn.clamp(torch.nextafter(low, high), torch.nextafter(high, low))

    def _crps(self, value: Tensor) -> Tensor:
        integrals, center = self._integrals, self._center()
        endless = integrals.endless(1, center, probe=self._probe)
        refuse_endless_crps(torch.stack(endless))
        pit = self._pit_of(self._level_law, value)
        return integrals.crps(value, pit).to(self._answer_dtype(value))

    def _answer_dtype(self, value: Tensor) -> torch.dtype:
        return torch.promote_types(value.dtype, self.dtype)

    def _center(self) -> Tensor:
        return self._transform.inverse(self._base.quantile(0.5).double())

    @property
    def _level_law(self) -> AbstractDistribution:
        """The law whose levels the integrals run over: before any recalibration."""
        base = self._base
        return base.base if isinstance(base, Recalibrated) else base

    @property
    def _integrals(self) -> LevelIntegrals:
        law, base = self._level_law, self._base
        unit_map = base.unit_map if isinstance(base, Recalibrated) else None

        def at(pit: PitValues) -> Tensor:
            return self._transform.inverse(quantiles_at(law, pit).double())

        searched = self if self._searched else None
        rule = even_rule() if searched else rule_for(law, unit_map)
        return LevelIntegrals(
            rule, at, self.batch_shape, self._like.device, searched=searched
        )

    def _probe(self, pit: PitValues) -> Tensor:
        """Quantiles in tails of 1e-300, for laws that reach so far."""
        law = self._base
        if isinstance(law, StudentT):  # the one whose tails are heavy, in any float
            parameters = law.degrees_of_freedom, law.location, law.scale
            law = StudentT(*(parameter.double() for parameter in parameters))
        z = quantiles_at(law, pit, smallest=torch.finfo(law.dtype).tiny)
        return self._transform.inverse(z.double())

    def _moments(self) -> tuple[Tensor, ...]:
        return self._once(
            lambda: self._integrals.mean_and_variance(self._center(), probe=self._probe)
        )
