"""Moments and the crps of a mapped law from a table of the quantiles before the map."""

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from calibrant.contracts import PitValues, UnitMap
from calibrant.distributions._derived import DerivedDistribution
from calibrant.distributions._level_integrals import LevelIntegrals
from calibrant.distributions._level_rule import LevelRule, pit_from_log_odds
from calibrant.distributions._tabulated_quantiles import TabulatedQuantiles

__all__ = ["crps_through_map", "moments_through_map"]

#: Edges of the panels in log odds of the upper half; a table has no more to tell.
_EDGES = [0.0, 0.8, 1.8, 3.4, 6.0, 10.0, 17.0, 30.0, 55.0, 87.0]
#: Weights of a rule that count as none.
_NOTHING = 1e-13
#: Doubt of a table from which on its row is integrated over values.
_DOUBT = 1e-3
#: A map outlives the laws of many blocks of rows, and its rule costs as much as them.
_RULES: WeakKeyDictionary[UnitMap, LevelRule] = WeakKeyDictionary()


def moments_through_map(
    law: DerivedDistribution, unit_map: UnitMap
) -> tuple[Tensor, Tensor]:
    """Mean and variance, ``(2, *batch_shape)``, and the rows where they are no good.

    The kinks of the map are met exactly, however many there are: they are levels, the
    same for all rows, while integrals over values pass over them.

    Parameters
    ----------
    law
        The mapped law. Its base must have a density.
    unit_map
        The map of the levels of its base.
    """
    table, integrals = _prepared(law, unit_map)
    center = table.at(pit_from_log_odds(law._like.new_zeros((), dtype=torch.float64)))
    first, second = integrals.around(center)
    variance = (second - first.square()).clamp_min(0)
    return torch.stack([center + first, variance]), _doubted(table)


def crps_through_map(
    law: DerivedDistribution, value: Tensor, unit_map: UnitMap
) -> tuple[Tensor, Tensor]:
    """CRPS of values ``batch_shape``, with an axis in front, and the doubtful rows."""
    table, integrals = _prepared(law, unit_map)
    cdf, survival, _ = law.base._tails(value)
    least = torch.finfo(torch.float64).tiny
    logs = (tail.clamp_min(least).log() for tail in (cdf, survival))
    score = integrals.crps(value, PitValues(cdf, survival, *logs))
    return score[None], _doubted(table)


def _prepared(
    law: DerivedDistribution, unit_map: UnitMap
) -> tuple[TabulatedQuantiles, LevelIntegrals]:
    table = TabulatedQuantiles(law.base)
    shape, device = law.batch_shape, law._like.device
    return table, LevelIntegrals(_rule(unit_map), table.at, shape, device)


def _doubted(table: TabulatedQuantiles) -> Tensor:
    return ~(table.doubt() <= _DOUBT)


def _rule(unit_map: UnitMap) -> LevelRule:
    """Return the rule of a map, made once for each."""
    if unit_map not in _RULES:
        upper = torch.tensor(_EDGES, dtype=torch.float64)
        rule = LevelRule(unit_map, torch.cat([-upper[1:].flip(0), upper]), degree=8)
        some = rule.weights.abs() + rule.spread_weights.abs() > _NOTHING
        rule.nodes, rule.weights = rule.nodes[some], rule.weights[some]
        rule.spread_weights = rule.spread_weights[some]
        rule.panels = [rule.panels[place] for place in some.nonzero()[:, 0].tolist()]
        _RULES[unit_map] = rule
    return _RULES[unit_map]
