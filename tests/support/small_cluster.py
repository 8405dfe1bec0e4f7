"""A Dask cluster inside of this process, which starts in a moment."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["small_cluster"]


@contextmanager
def small_cluster() -> Iterator[Any]:
    """Start two workers of one thread each; without Dask the test is skipped."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        processes=False,
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",  # any port: that of a second cluster is a warning
    ) as cluster:
        yield cluster
