"""Metrics that say how far predictions can be trusted, next to their noise floors.

Public names stand in ``__init__.pyi`` and load on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
