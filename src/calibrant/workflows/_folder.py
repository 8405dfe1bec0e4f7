"""Predictions for all files of a folder: here, or each a task on a Dask cluster."""

import contextlib
import hashlib
import json
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from calibrant._checks import InputError
from calibrant._dask import (
    SchedulerError,
    WorkerDiedError,
    check_address,
    explained,
)
from calibrant._progress import Bar
from calibrant.benchmark.schedulers import run_jobs
from calibrant.tables.wording import amount, listed
from calibrant.workflows._folder_ledger import LEDGER, FolderLedger, Made, signature

__all__ = ["FileJob", "FolderOutcome", "check_seen", "checksum_of", "predict_files"]

#: More notes than that are left to the ledger.
MOST_NOTES = 20


@dataclass(frozen=True)
class FileJob:
    """One file to predict.

    Attributes
    ----------
    source, target, model
        Paths of the file, of its predictions, and of the model's folder.
    checksum
        Of the model, as :func:`checksum_of` gives it.
    options
        Of the predictions, as JSON.
    sign
        A file beside the target which shows a worker that it sees the same folder;
        None in this process.
    """

    source: str
    target: str
    model: str
    checksum: str
    options: str
    sign: str | None


@dataclass
class FolderOutcome:
    """What has become of the files.

    Attributes
    ----------
    rows
        Of all finished files.
    files, skipped
        Names of those that were predicted now, and before.
    notes
        What was unusual.
    failures
        What went wrong, by file.
    """

    rows: int = 0
    files: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def checksum_of(model: Path) -> str:
    """SHA-256 of a model's description, which holds the checksum of its arrays."""
    try:
        return hashlib.sha256((model / "model.json").read_bytes()).hexdigest()
    except OSError:
        return "nothing"


def check_seen(job: FileJob) -> None:
    """Refuse to work where the files are not those that the caller meant."""
    seen = {
        job.model: checksum_of(Path(job.model)) == job.checksum,
        job.source: Path(job.source).is_file(),
        job.target: job.sign is None or Path(job.sign).exists(),
    }
    missing = [path for path, there in seen.items() if not there]
    if not missing:
        return
    if job.sign is None:
        raise InputError(f"{missing[0]}: this was changed while it was being used.")
    raise SchedulerError(
        f"all workers must see the model, the files and the output folder under the "
        f"same paths, and the one at {socket.gethostname()} does not see {missing[0]} "
        "as it is here. Put them on a file system that all machines share."
    )


def predict_files(
    sources: Sequence[Path],
    out: Path,
    model: Path,
    function: Callable[[FileJob], Mapping[str, Any]],
    *,
    options: Mapping[str, Any],
    scheduler: str | None,
    progress: bool | None,
) -> FolderOutcome:
    """Predict files that are not finished yet, and write down those that are.

    Parameters
    ----------
    sources
        The files.
    out, model
        Folders of the predictions and of the model.
    function
        Predicts one file; it gives ``rows``, ``notes`` and more as JSON can hold it.
        With a scheduler it must be one that workers can import.
    options
        Of the predictions.
    scheduler
        Address of a Dask scheduler; None for this process.
    progress
        Show a progress bar; None for a terminal only.
    """
    if scheduler is not None:
        check_address(scheduler)
    text = json.dumps(options)
    made = Made(checksum_of(model), json.loads(text))
    ledger, done = FolderLedger(out, made), FolderOutcome()
    for source in sources:
        line = ledger.finished(source)
        if line is not None:
            done.skipped.append(source.name)
            done.rows += line["rows"]
    waiting = [source for source in sources if source.name not in set(done.skipped)]
    columns = ("count", "elapsed", "left")
    with (
        _sign(out, scheduler) as sign,
        Bar(f"predict {out.name}", columns, total=len(waiting), shown=progress) as bar,
    ):
        jobs = [_job(each, out, model, made.model, text, sign) for each in waiting]
        begun: dict[str, Any] = {}
        # Once somebody is there to make them again, and before anybody does.
        clear = partial(_clear_former, ledger, list(sources), out, done)
        handed = _handed_out(jobs, begun, clear)
        results = run_jobs(function, handed, scheduler=scheduler)
        with contextlib.closing(results):  # type: ignore[type-var]
            for count, (job, outcome) in enumerate(results, 1):
                _take(job, outcome, begun, ledger, done)
                bar.show(completed=count)
    done.files.sort()
    more = len(done.notes) - MOST_NOTES
    if more > 0:
        told = f"{more:,} more notes are in {LEDGER} beside the predictions."
        done.notes[MOST_NOTES:] = [told]
    return done


def _clear_former(
    ledger: FolderLedger, sources: list[Path], out: Path, done: FolderOutcome
) -> None:
    removed = ledger.remove_former(sources)
    if removed:
        done.notes.append(
            f"{amount(removed, 'file')} in {out} of another model, other options or a "
            "former input will be made again."
        )
    orphans = ledger.orphans(sources)
    if orphans:
        done.notes.append(
            f"{out} has predictions whose inputs are gone: {listed(orphans)}."
        )


@contextlib.contextmanager
def _sign(out: Path, scheduler: str | None) -> Iterator[str | None]:
    """Put a file into the folder by which workers know it."""
    if scheduler is None:
        yield None
        return
    path = out.absolute() / f".{secrets.token_hex(8)}.calibrant"
    path.touch()
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)


def _job(
    source: Path, out: Path, model: Path, checksum: str, options: str, sign: str | None
) -> FileJob:
    paths = [source, out / source.name, model]
    if sign is not None:  # another process may be in another folder
        paths = [path.absolute() for path in paths]
    start, end, home = map(str, paths)
    return FileJob(start, end, home, checksum, options, sign)


def _handed_out(
    jobs: Sequence[FileJob], begun: dict[str, Any], first: Callable[[], None]
) -> Iterator[FileJob]:
    """Hand jobs out, and keep what their files were like then.

    The first one is asked for when workers are there; ``first`` is called then.
    """
    first()
    for job in jobs:
        begun[job.source] = signature(Path(job.source))
        yield job


def _take(
    job: FileJob,
    outcome: Mapping[str, Any] | Exception,
    begun: Mapping[str, Any],
    ledger: FolderLedger,
    done: FolderOutcome,
) -> None:
    name = Path(job.source).name
    if isinstance(outcome, Exception):
        done.failures.append(_reason(job, outcome))
        return
    seen = {
        "input": begun[job.source],
        # A network file system may show it here only later.
        "output": signature(Path(job.target)) or outcome["output"],
    }
    ledger.add(name, {**outcome, **seen})
    done.files.append(name)
    done.rows += int(outcome["rows"])
    done.notes += outcome["notes"]


def _reason(job: FileJob, error: Exception) -> str:
    """What to say of a file that failed; anything that stops all of them is raised."""
    if isinstance(error, WorkerDiedError):
        return (
            f"{job.source}: its workers died again and again, most often for a lack of "
            "memory. Start workers with more of it (dask worker --memory-limit)."
        )
    if isinstance(error, SchedulerError) or not isinstance(error, InputError | OSError):
        raise explained(error)
    return " ".join(str(error).split())
