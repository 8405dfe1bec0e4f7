"""Train the default model for one epoch on generated rows; print time and memory.

python -m bench._train_rows 500000 90
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from calibrant import CalibratedRegressor


def _peak_bytes() -> int:
    """Most memory that this process has held.

    Not ``ru_maxrss``, which a process inherits from the one that started it.
    """
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    (line,) = (each for each in lines if each.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def main(rows: int, columns: int) -> None:
    """Fit once and print what it took as JSON."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, columns), dtype=np.float32)
    y = x[:, 0] + np.abs(x[:, 1]) * random.standard_normal(rows, dtype=np.float32)
    model = CalibratedRegressor(
        learners=["network"], members=5, epochs=1, random_state=0
    )
    model.fit(x[:100], y[:100])  # imports what a first fit imports
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # begin the peak anew
    start = time.perf_counter()
    model.fit(x, y)
    seconds = time.perf_counter() - start
    numbers = {
        "seconds": seconds,
        "peak_bytes": _peak_bytes(),
        "data_bytes": x.nbytes + y.nbytes,
    }
    print(json.dumps(numbers))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
