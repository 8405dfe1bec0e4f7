import collections.abc as _abc

import calibrant.protocols as _protocols
import calibrant.registry as _registry

from .conformal import ConformalInterval as ConformalInterval
from .conformal import ConformalPrediction as ConformalPrediction
from .maps import BetaRecalibrator as BetaRecalibrator
from .maps import EmpiricalRecalibrator as EmpiricalRecalibrator
from .maps import IsotonicRecalibrator as IsotonicRecalibrator
from .maps import SmoothRecalibrator as SmoothRecalibrator
from .scale import ScaleRecalibrator as ScaleRecalibrator

RECALIBRATORS: _registry.Table[_abc.Callable[..., _protocols.Recalibrator]]

def from_json(text: str) -> _protocols.Recalibrator: ...
