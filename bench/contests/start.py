"""How long a command takes until it does something."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.contest import Contest, at_most

__all__ = ["CONTESTS"]


def _python(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def _command(*words: str) -> Callable[[], object]:
    program = Path(sys.executable).with_name("calibrant")
    return lambda: subprocess.run(
        [program, *words], check=True, stdout=subprocess.DEVNULL
    )


def _start(name: str, ours: Callable[[], object]) -> Contest:
    return Contest(
        work=f"`{name}`",
        against='`python -c "import torch"`',
        goal=at_most(0.15),
        ours=ours,
        other=_python("import torch"),
        threads=(1,),
        rounds=(7, 7),
        once=True,
        note="each in a process of its own",
    )


CONTESTS: dict[str, Callable[[], Contest]] = {
    "help": lambda: _start("calibrant --help", _command("--help")),
    "import": lambda: _start("import calibrant", _python("import calibrant")),
}
