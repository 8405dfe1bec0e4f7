"""One call in a worker, of this machine or of another.

Nothing of this library is imported here: a worker starts as fast as its function loads.
"""

import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

__all__ = ["call", "same"]

Result = TypeVar("Result")


def call(function: Callable[..., Result], job: object, *shared: object) -> Result:
    """Call ``function(job, *shared)`` on one thread.

    An error carries its traceback as a note, since a traceback does not travel between
    processes.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    try:
        return function(job, *shared)
    except Exception as error:
        error.add_note(f"In the worker:\n{traceback.format_exc()}")
        raise


def same(value: Result) -> Result:
    """Return the value, which a worker then holds for the calls of others."""
    return value
