"""How costs grow with the number of rows: times, fitted exponents and memory."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import uncertainty_toolbox as toolbox

from bench.contest import best_seconds
from bench.contests.metrics import first_scorecard, predictions
from bench.contests.regularizer import backward_of, bare_sort, relaxed
from bench.growth_fit import exponent
from calibrant import QuantileRegularizer

__all__ = ["CURVES", "Curve"]

# Columns of the Year Prediction set, whose shape the generated rows have.
_COLUMNS = 90
_TRAINED = (1_000, 4_000, 16_000, 64_000, 256_000, 500_000)


@dataclass(frozen=True)
class Curve:
    """Seconds against sizes.

    Attributes
    ----------
    panel, name
        Where it is drawn, and what it is.
    sizes, seconds
        The points.
    bytes_per_row
        Slope of the peak memory, where it was measured, else None.
    note
        What a reader should know.
    """

    panel: str
    name: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    bytes_per_row: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, object]:
        """Make a dictionary for JSON, with exponents of large sizes and of all."""
        half = len(self.sizes) // 2
        return {
            **asdict(self),
            "exponent": exponent(self.sizes[half:], self.seconds[half:]),
            "exponent_of_all": exponent(self.sizes, self.seconds),
        }


def _timed(
    panel: str,
    name: str,
    sizes: Sequence[int],
    make: Callable[[int], Callable[[], object]],
) -> Curve:
    seconds = tuple(best_seconds(make(size), seconds=1.0) for size in sizes)
    return Curve(panel, name, tuple(sizes), seconds)


def _regularizers() -> Iterator[Curve]:
    panel = "regularizer, forward + backward"
    many = [4**power for power in range(3, 11)]

    few = [64, 256, 1024, 2048, 4096, 8192]
    yield _timed(panel, "NeuralSort", few, lambda n: backward_of(relaxed, n))
    regularizer = QuantileRegularizer()
    yield _timed(panel, "calibrant", many, lambda n: backward_of(regularizer, n))
    yield _timed(panel, "a bare sort", many, bare_sort)


def _metrics() -> Iterator[Curve]:
    panel = "all metrics"

    def theirs(n: int) -> Callable[[], object]:
        mean, spread, y = predictions(n)
        return lambda: toolbox.get_all_metrics(mean, spread, y, verbose=False)

    yield _timed(panel, "uncertainty-toolbox", [100, 1_000, 4_000, 16_000], theirs)
    sizes = [100, 1_000, 10_000, 100_000, 1_000_000]
    yield _timed(panel, "calibrant", sizes, first_scorecard)


def _training() -> Iterator[Curve]:
    """Each size in a process of its own, whose peak memory is then its own."""
    measured = [
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "bench._train_rows", str(rows), str(_COLUMNS)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for rows in _TRAINED
    ]
    seconds = tuple(each["seconds"] for each in measured)
    memory = [each["peak_bytes"] for each in measured]
    slope = (memory[-1] - memory[-2]) / (_TRAINED[-1] - _TRAINED[-2])
    given = measured[-1]["data_bytes"] / _TRAINED[-1]
    yield Curve(
        "training, one epoch",
        "CalibratedRegressor",
        _TRAINED,
        seconds,
        slope,
        f"rows of {_COLUMNS} columns, {given:.0f} bytes each as given; each more row "
        f"adds {slope:.0f} bytes to the peak",
    )


#: Curves by panel; each function yields those of one.
CURVES: tuple[Callable[[], Iterator[Curve]], ...] = (
    _regularizers,
    _metrics,
    _training,
)
