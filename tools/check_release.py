"""Look at the archives of a release: ``python tools/check_release.py dist``."""

import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from calibrant import __version__

#: A wheel is downloaded by everybody: it holds nine data sets and no more.
LARGEST_WHEEL = 4_000_000
_ENDS = ("-py3-none-any.whl", ".tar.gz")
_PACKAGE = Path(__file__).parents[1] / "src" / "calibrant"
_IN_SOURCES = ("README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "tests/conftest.py")


def faults(folder: Path) -> list[str]:
    """Say what is wrong with the wheel and the sdist in a folder."""
    wheels, sources = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sources) != 1:
        return [
            f"{folder} must hold one wheel and one sdist, got {[*wheels, *sources]}"
        ]
    (wheel,), (source,) = wheels, sources
    found = [
        f"{each.name} is not of version {__version__}"
        for each in (wheel, source)
        if not each.name.startswith(
            tuple(f"calibrant-{__version__}{end}" for end in _ENDS)
        )
    ]
    size = wheel.stat().st_size
    if size >= LARGEST_WHEEL:
        found.append(f"{wheel.name} has {size:,} bytes, at most {LARGEST_WHEEL:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    wanted = [
        f"calibrant/{path.relative_to(_PACKAGE).as_posix()}"
        for path in _PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    found += _missing(wheel, names, wanted)
    found += [
        f"{wheel.name} holds {name}"
        for name in names
        if not name.startswith(("calibrant/", "calibrant-")) or "__pycache__" in name
    ]
    with tarfile.open(source) as packed:
        inner = [name.partition("/")[2] for name in packed.getnames()]
    found += [
        f"{source.name} holds {name}"
        for name in inner
        if "site-packages" in name  # of an environment that stood in the tree
    ][:1]
    return found + _missing(source, inner, _IN_SOURCES)


def _missing(path: Path, names: list[str], wanted: Iterable[str]) -> list[str]:
    there = set(names)
    return [f"{path.name} lacks {each}" for each in wanted if each not in there]


def main() -> int:
    """Print all faults; 0 if there are none."""
    folder = Path(sys.argv[1])
    found = faults(folder)
    for each in found:
        print(each, file=sys.stderr)
    if not found:
        for path in sorted(folder.iterdir()):
            print(f"{path.name}: {path.stat().st_size:,} bytes")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
