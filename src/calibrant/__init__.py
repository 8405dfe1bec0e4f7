"""Regression whose uncertainty can be trusted.

The public names stand in ``__init__.pyi`` and load on first use, so that
``import calibrant`` does not wait for torch.
"""

import lazy_loader

from calibrant._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
