import collections.abc as _abc

import calibrant.protocols as _protocols
import calibrant.registry as _registry

from .mlp import DeepEnsemble as DeepEnsemble
from .mlp import GaussianHead as GaussianHead
from .mlp import GaussianMixtureHead as GaussianMixtureHead
from .mlp import LaplaceHead as LaplaceHead
from .mlp import MCDropout as MCDropout
from .mlp import MLPStack as MLPStack
from .mlp import StudentTHead as StudentTHead

HEADS: _registry.Table[_abc.Callable[..., _protocols.Head]]
NETWORKS: _registry.Table[_abc.Callable[..., _protocols.Network]]
