"""What a run found, in plain words."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from calibrant.benchmark.records import Record
from calibrant.benchmark.summary import MEASURES
from calibrant.report._arms import (
    ArmRecords,
    Setting,
    data_title,
    network_title,
    paper_settings,
)

__all__ = ["Effect", "Tile", "effects", "how_it_ran", "plain_words", "tiles"]


@dataclass(frozen=True)
class Effect:
    """Base and regularized means of one network on one data set."""

    network: str
    data: str
    strength: float
    floor: float
    error: tuple[float, float]
    rmse: tuple[float, float]
    nll: tuple[float, float]

    @property
    def factor(self) -> float:
        """By how much the calibration error became smaller."""
        return self.error[0] / self.error[1] if self.error[1] else float("inf")

    @property
    def rmse_change(self) -> float:
        """Rise of the RMSE in percent."""
        return 100 * (self.rmse[1] / self.rmse[0] - 1) if self.rmse[0] else 0.0

    @property
    def where(self) -> str:
        """Data set and network in words."""
        return f"{data_title(self.data)} with {_inside(self.network)}"


@dataclass(frozen=True)
class Tile:
    """One number to take away, and what it counts."""

    value: str
    text: str


def effects(every: Sequence[Setting]) -> list[Effect]:
    """Compare base and regularized arms, in the setting nearest to the paper's.

    Examples
    --------
    >>> effects([])
    []
    """
    found = paper_settings(every).values()
    return [_effect(each, each.pair) for each in found if each.pair is not None]


def plain_words(found: Sequence[Effect]) -> list[str]:
    """Say in a few paragraphs what regularization did, and where it did not work.

    Examples
    --------
    >>> plain_words([])[0][:24]
    'Nothing can be said yet:'
    """
    if not found:
        return [
            "Nothing can be said yet: no data set has been run both without and with "
            "quantile regularization."
        ]
    return [
        _what_happened(found),
        _where_it_failed(found),
        _what_it_cost(found),
        _what_is_left(found),
    ]


def tiles(found: Sequence[Effect], verdicts: Sequence[str]) -> list[Tile]:
    """Pick the numbers to take away.

    Examples
    --------
    >>> tiles([], ["holds", "not run", "does not hold"])[0].value
    '1 of 2'
    """
    result = []
    for network, group in _by_network(found).items():
        text = f"data sets with a lower calibration error, {_inside(network)}"
        result.append(Tile(_of(_lowered(group), len(group)), text))
    if found:
        factor = statistics.median(effect.factor for effect in found)
        cost = statistics.median(effect.rmse_change for effect in found)
        result.append(
            Tile(f"{factor:.2f} times", "lower calibration error, median over sets")
        )
        result.append(Tile(_percent(cost), "change of the RMSE, median over sets"))
    run = [verdict for verdict in verdicts if verdict != "not run"]
    if run:
        text = "verdicts on claims of the paper read “holds”, of those judged"
        result.append(Tile(_of(run.count("holds"), len(run)), text))
    return result


def how_it_ran(records: Sequence[Record]) -> list[tuple[str, str]]:
    """List size, seeds, versions, hardware and time of a run.

    Examples
    --------
    >>> how_it_ran([])
    [('Cells', 'none yet')]
    """
    if not records:
        return [("Cells", "none yet")]
    cells = [record.cell for record in records]
    seeds = {record.seed for record in records}
    times = sorted(record.finished for record in records)
    return [
        ("Cells", f"{len(records):,} (one model on one fold each)"),
        ("Data sets", _listed(data_title(cell.data) for cell in cells)),
        ("Networks", _listed(network_title(cell.network) for cell in cells)),
        ("Repeats", str(1 + max(cell.repeat for cell in cells))),
        ("Seeds", f"{len(seeds):,} different, {min(seeds)} to {max(seeds)}"),
        ("Versions", _listed((r.versions for r in records), between="; ")),
        ("Hardware", _listed((r.host for r in records), between="; ")),
        ("Threads per process", _listed(str(record.threads) for record in records)),
        ("Computing time", _duration(sum(record.seconds for record in records))),
        ("Finished", f"{times[0]} to {times[-1]}"),
    ]


def _effect(setting: Setting, pair: tuple[ArmRecords, ArmRecords]) -> Effect:
    def both(measure: str) -> tuple[float, float]:
        base, regularized = (arm.number(MEASURES[measure]).mean for arm in pair)
        return base, regularized

    return Effect(
        network=setting.key.network,
        data=setting.key.data,
        strength=pair[1].arm.strength,
        floor=both("floor")[0],
        error=both("calibration_error"),
        rmse=both("rmse"),
        nll=both("nll"),
    )


def _by_network(found: Sequence[Effect]) -> dict[str, list[Effect]]:
    groups: dict[str, list[Effect]] = {}
    for effect in found:
        groups.setdefault(effect.network, []).append(effect)
    return groups


def _what_happened(found: Sequence[Effect]) -> str:
    strengths = _listed(f"λ = {effect.strength:g}" for effect in found)
    parts = [
        f"with {_inside(network)} on {_lowered(group)} of {_sets(len(group))} (by a "
        f"factor of {statistics.median(effect.factor for effect in group):.2f} at the "
        "median)"
        for network, group in _by_network(found).items()
    ]
    return (
        f"Quantile regularization ({strengths}) lowered the mean calibration error "
        f"{', and '.join(parts)}."
    )


def _where_it_failed(found: Sequence[Effect]) -> str:
    failed = [
        f"{effect.where} ({effect.error[0]:.3g} to {effect.error[1]:.3g})"
        for effect in found
        if effect.factor <= 1
    ]
    if not failed:
        return "On no set was the mean error higher with it."
    return f"It does not work everywhere. The mean error rose on {', '.join(failed)}."


def _what_it_cost(found: Sequence[Effect]) -> str:
    worst = max(found, key=lambda effect: effect.rmse_change)
    middle = statistics.median(effect.rmse_change for effect in found)
    better = sum(effect.nll[1] < effect.nll[0] for effect in found)
    return (
        f"What it costs: the RMSE changed by {_percent(middle)} at the median and by "
        f"{_percent(worst.rmse_change)} at worst ({worst.where}). The NLL became "
        f"better in {better} of {len(found)} comparisons."
    )


def _what_is_left(found: Sequence[Effect]) -> str:
    far = sum(effect.error[1] > 2 * effect.floor for effect in found)
    return (
        "Even a perfect model shows some error, because test folds are finite. With "
        f"regularization the error is still more than twice that floor in {far} of "
        f"{len(found)} comparisons. These counts go by the means; the verdicts below "
        "go by paired tests."
    )


def _lowered(group: Sequence[Effect]) -> int:
    return sum(effect.factor > 1 for effect in group)


def _inside(network: str) -> str:
    """Name of a network within a sentence."""
    title = network_title(network)
    return {"Deep ensemble": "deep ensembles", "Our default": "our default"}.get(
        title, title
    )


def _sets(count: int) -> str:
    return f"{count} data set" if count == 1 else f"{count} data sets"


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def _percent(change: float) -> str:
    return f"{change:+.1f} %".replace("-", "\N{MINUS SIGN}")


def _listed(names: Iterable[str], *, between: str = ", ") -> str:
    return between.join(dict.fromkeys(names))


def _duration(seconds: float) -> str:
    """Write a time in the unit that suits it.

    >>> _duration(75), _duration(7200)
    ('1.2 minutes', '2.0 hours')
    """
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    if seconds < 3600:
        return f"{seconds / 60:.1f} minutes"
    return f"{seconds / 3600:.1f} hours"
