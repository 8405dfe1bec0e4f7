"""The paper, reproduced: plans, a ledger of finished cells, verdicts, one page.

``reproduce(plan, folder)`` trains what is missing; all that comes after it reads
records. Public names stand in ``__init__.pyi`` and load on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
