"""How a run went: size, seeds, versions, hardware and time."""

from collections.abc import Iterable, Sequence

from calibrant.benchmark.records import Record
from calibrant.report._names import data_title, network_title

__all__ = ["how_it_ran"]


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
    names = dict.fromkeys(cell.data for cell in cells)
    seeds = {record.seed for record in records}
    times = sorted(record.finished for record in records)
    return [
        ("Cells", f"{len(records):,} (one model on one fold each)"),
        ("Data sets", _listed(data_title(name, names) for name in names)),
        ("Networks", _listed(network_title(cell.network) for cell in cells)),
        ("Repeats", str(1 + max(cell.repeat for cell in cells))),
        ("Seeds", f"{len(seeds):,} different, {min(seeds)} to {max(seeds)}"),
        ("Versions", _listed((r.versions for r in records), between="; ")),
        ("Hardware", _listed((r.host for r in records), between="; ")),
        ("Threads per process", _listed(str(record.threads) for record in records)),
        ("Computing time", _duration(sum(record.seconds for record in records))),
        ("Finished", f"{times[0]} to {times[-1]}"),
    ]


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
