"""A Dask cluster inside of this process, which starts in a moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from calibrant import _dask
from patience import HANGS

__all__ = ["small_cluster"]


@contextmanager
def small_cluster() -> Iterator[Any]:
    """Start two workers of one thread each; without Dask the test is skipped."""
    distributed = pytest.importorskip("distributed")
    with (
        pytest.MonkeyPatch.context() as patch,
        distributed.LocalCluster(
            processes=False,
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",  # any port: that of a second cluster is a warning
        ) as cluster,
    ):
        patch.setattr(_dask, "PATIENCE", HANGS)
        yield cluster
