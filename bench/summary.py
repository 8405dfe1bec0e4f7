"""What the cells of ``bench.default`` say: tables of means, ratios to the best peer."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, geometric_mean, median, stdev
from typing import Any

from scipy import stats

__all__ = ["OTHERS", "PEERS", "Comparison", "Results"]

#: What people use instead, by other libraries.
PEERS = (
    "catboost conformal",
    "5 x catboost, variance",
    "ngboost",
    "lightgbm quantiles + CQR",
    "quantile forest",
    "realmlp",
)
#: Ours: the paper's model, and the version before.
OTHERS = ("plain ensemble", "calibrant 0.1")
#: Tables on which these are compared.
BUNDLED = (
    *("yacht", "boston", "concrete", "fish", "airfoil", "red_wine"),
    *("white_wine", "kin8nm", "protein"),
)
#: The fits whose time is the unit.
TIMED = "5 x catboost, variance"
# Test rows for each row to learn from, in splits of 90 and 10 %.
_OVERLAP = 1 / 9
# Differences of a smaller p are called clear.
_CLEAR = 0.05


@dataclass(frozen=True)
class Comparison:
    """A method's CRPS on a table beside a rival's, on the splits that both have.

    ``p`` is of the paired t-test for overlapping splits: Nadeau and Bengio (2003),
    *Inference for the Generalization Error*.
    """

    data: str
    rival: str
    ratio: float
    p: float
    splits: int


class Results:
    """Finished cells by table and method; of two of the same split the later one.

    Parameters
    ----------
    rows
        Cells with ``data``, ``method``, ``seed`` and the measures.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._cells: dict[str, dict[str, dict[int, Mapping[str, Any]]]] = {}
        for row in rows:
            methods = self._cells.setdefault(row["data"], {})
            methods.setdefault(row["method"], {})[row["seed"]] = row
        found = dict.fromkeys(m for methods in self._cells.values() for m in methods)
        self.methods = tuple(found)
        self.data = tuple(self._cells)

    @classmethod
    def read(cls, path: str | Path) -> "Results":
        """Read a file of cells."""
        lines = Path(path).read_text("utf-8").splitlines()
        return cls(json.loads(line) for line in lines)

    def seeds(self, data: str, method: str) -> tuple[int, ...]:
        """Finished splits, sorted."""
        return tuple(sorted(self._cells.get(data, {}).get(method, {})))

    def values(
        self, data: str, method: str, name: str, seeds: Iterable[int] | None = None
    ) -> list[float]:
        """One measure on all finished splits, or on some; NaN where it is missing."""
        cells = self._cells.get(data, {}).get(method, {})
        wanted = sorted(cells) if seeds is None else seeds
        return [float(cells[seed].get(name, math.nan)) for seed in wanted]

    def mean(self, data: str, method: str, name: str) -> float:
        """Mean of a measure over the finished splits."""
        return fmean(self.values(data, method, name) or [math.nan])

    def error_over_floor(self, data: str, method: str) -> float:
        """Calibration error over that of a perfect model on as many rows."""
        error = self.mean(data, method, "calibration_error")
        return error / self.mean(data, method, "floor")

    def compare(self, data: str, method: str, rival: str) -> Comparison | None:
        """CRPS of a method over a rival's; None without a common split."""
        own, other = self.seeds(data, method), self.seeds(data, rival)
        seeds = [seed for seed in own if seed in other]
        if not seeds:
            return None
        mine = self.values(data, method, "crps", seeds)
        theirs = self.values(data, rival, "crps", seeds)
        p = _corrected_p([a - b for a, b in zip(mine, theirs, strict=True)])
        return Comparison(data, rival, fmean(mine) / fmean(theirs), p, len(seeds))

    def best(
        self, data: str, method: str, rivals: Sequence[str] = PEERS
    ) -> Comparison | None:
        """Comparison with the rival of the lowest CRPS; None if there is none."""
        found = [self.compare(data, method, rival) for rival in rivals]
        return max(filter(None, found), key=lambda c: c.ratio, default=None)

    def table(self) -> str:
        """All means, a line for each table and method."""
        header = "data | method | splits | CRPS | NLL | RMSE | error / floor"
        lines = [f"{header} | covered by 90 % | fit, s | predict, s"]
        for data in self.data:
            for method in self.methods:
                splits = len(self.seeds(data, method))
                if not splits:
                    continue

                def mean(name: str, data: str = data, method: str = method) -> float:
                    return self.mean(data, method, name)

                lines.append(
                    f"{data} | {method} | {splits} | {mean('crps'):.4g} | "
                    f"{mean('nll'):.3f} | {mean('rmse'):.4g} | "
                    f"{self.error_over_floor(data, method):.2f} | "
                    f"{100 * mean('coverage_90'):.1f} % | {mean('fit_seconds'):.1f} | "
                    f"{mean('predict_seconds'):.3f}"
                )
        return "\n".join(lines)

    def summary(self, method: str = "default") -> list[str]:
        """Sentences on a method beside the best peer of each table and beside others.

        The paper's model and the version before are compared on the bundled tables.
        """
        tables = [data for data in self.data if self.seeds(data, method)]
        if not tables:
            return [f"No cells of {method}."]
        against = [self.best(data, method) for data in tables]
        lines = [
            f"{pair.data}: {pair.ratio:.3f} of {pair.rival}, the best peer "
            f"({pair.splits} splits, p = {pair.p:.2g})"
            for pair in filter(None, against)
        ]
        lines += _judged(method, "the best peer", against)
        for rival in OTHERS:
            pairs = [self.compare(data, method, rival) for data in BUNDLED]
            lines += _judged(method, rival, pairs)
        ratios = {data: self.error_over_floor(data, method) for data in tables}
        worst = max(ratios, key=lambda data: ratios[data])
        coverage = fmean(self.mean(data, method, "coverage_90") for data in tables)
        lines.append(
            f"calibration error over floor: median {median(ratios.values()):.2f}, "
            f"largest {ratios[worst]:.2f} ({worst})"
        )
        lines.append(f"90 % intervals cover {100 * coverage:.1f} % on average")
        times = [
            self.mean(data, method, "fit_seconds")
            / self.mean(data, TIMED, "fit_seconds")
            for data in tables
            if self.seeds(data, TIMED)
        ]
        if times:
            lines.append(
                f"fit time over that of five CatBoost fits: {geometric_mean(times):.2f}"
                f" (geometric mean of {len(times)} tables), largest {max(times):.2f}"
            )
        return lines

    def markdown(self, methods: Sequence[str] | None = None) -> str:
        """CRPS and, in brackets, calibration error over floor, the best CRPS bold."""
        shown = [m for m in methods or self.methods if m in self.methods]
        rows = [["data (splits)", *shown], ["---"] * (1 + len(shown))]
        for data in self.data:
            counts = {len(self.seeds(data, m)) for m in shown} - {0}
            if not counts:
                continue
            means = {m: self.mean(data, m, "crps") for m in shown}
            best = min(value for value in means.values() if not math.isnan(value))
            splits = " or ".join(map(str, sorted(counts, reverse=True)))
            row = [f"{data.replace('_', ' ')} ({splits})"]
            for m, crps in means.items():
                text = f"**{crps:.3g}**" if crps == best else f"{crps:.3g}"
                error = f"{self.error_over_floor(data, m):.1f}"
                row.append("-" if math.isnan(crps) else f"{text} ({error})")
            rows.append(row)
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def ratios(self, methods: Sequence[str], base: str = "default") -> str:
        """CRPS over that of a method, and calibration error over floor in brackets.

        Both on the splits that the two have; a star marks p < 0.05.
        """
        shown = [m for m in methods if m in self.methods]
        rows = [["data", base, *shown], ["---"] * (2 + len(shown))]
        for data in self.data:
            found = [self.compare(data, m, base) for m in shown]
            if not any(found):
                continue
            row = [data.replace("_", " "), f"({self.error_over_floor(data, base):.1f})"]
            for m, pair in zip(shown, found, strict=True):
                if pair is None:
                    row.append("-")
                    continue
                error = f"({self.error_over_floor(data, m):.1f})"
                row.append(f"{pair.ratio:.3f}{'*' * (pair.p < _CLEAR)} {error}")
            rows.append(row)
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _corrected_p(differences: Sequence[float]) -> float:
    """Two-sided p of the corrected t-test; 1 for a single split or equal values."""
    n = len(differences)
    spread = stdev(differences) if n > 1 else 0.0
    if spread == 0:
        return 1.0
    t = fmean(differences) / (spread * math.sqrt(1 / n + _OVERLAP))
    return float(2 * stats.t.sf(abs(t), n - 1))


def _judged(
    method: str, rival: str, pairs: Iterable[Comparison | None]
) -> Iterable[str]:
    """Say on how many tables a method is as good as a rival, and its ratios."""
    found = list(filter(None, pairs))
    if not found:
        return
    worst = max(found, key=lambda pair: pair.ratio)
    wins = sum(pair.ratio <= 1 for pair in found)
    middle = geometric_mean(pair.ratio for pair in found)
    clear = [pair.ratio < 1 for pair in found if pair.p < _CLEAR]
    yield (
        f"CRPS of {method} over {rival}: at most 1 on {wins} of {len(found)} tables, "
        f"largest {worst.ratio:.3f} ({worst.data}), geometric mean "
        f"{middle:.3f}; p < 0.05 on {len(clear)}, {sum(clear)} of them lower"
    )
