"""Names of data sets, networks and protocols as a reader expects them."""

import re
from collections.abc import Iterable

__all__ = [
    "data_title",
    "epochs_text",
    "folds_text",
    "network_place",
    "network_title",
    "split_text",
    "spoken",
    "usual_folds",
]

_NETWORKS = {
    "mc_dropout": "MC dropout",
    "deep_ensemble": "Deep ensemble",
    "default": "Our default",
}
_DATA = {"year_msd": "Year Prediction MSD"}
_SPLITS = {
    "unshuffled": "file order",
    "shuffled": "shuffled",
    "fixed": "fixed split",
}
_FOLDS = 5


def data_title(name: str, among: Iterable[str] = ()) -> str:
    """Name of a data set, or of a CSV, as a reader expects it.

    A CSV is named by its file as written, with the target if it was given, and with
    its folder where another one would have the same title.

    Parameters
    ----------
    name
        Of the set, or the path of the CSV.
    among
        All names that are shown together, itself included or not.

    Examples
    --------
    >>> data_title("red_wine"), data_title("folder/my_rides.csv.gz#y")
    ('Red wine', 'my_rides (y)')
    >>> data_title("a/rides.csv", ["a/rides.csv", "b/rides.csv"])
    'a/rides'
    """
    titles = _titles(name)
    others = [_titles(other) for other in set(among) - {name}]
    for depth, title in enumerate(titles):
        # The shorter titles of the others count as well: they may be used.
        if not any(title in other[: depth + 1] for other in others):
            return title
    return titles[-1]


def _titles(name: str) -> tuple[str, ...]:
    """Titles of a set from the shortest to the one that is its own."""
    file = re.fullmatch(
        r"(.+)\.csv(?:\.gz)?(?:#(.*))?", name, flags=re.DOTALL | re.IGNORECASE
    )
    if file is None:
        return (_DATA.get(name, spoken(name)),)
    target = f" ({file[2]})" if file[2] else ""
    parts = re.split(r"[/\\]", file[1])
    return (parts[-1] + target, "/".join(parts[-2:]) + target, file[1] + target, name)


def network_title(name: str) -> str:
    """Name of a network as a reader expects it.

    Examples
    --------
    >>> network_title("mc_dropout")
    'MC dropout'
    """
    return _NETWORKS.get(name, spoken(name))


def network_place(name: str) -> int:
    """Place of a network in lists: known ones first."""
    known = list(_NETWORKS)
    return known.index(name) if name in known else len(known)


def spoken(name: str) -> str:
    """Turn a name of the code into words."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def split_text(split: str) -> str:
    """Name of a split, short.

    Examples
    --------
    >>> split_text("unshuffled")
    'file order'
    """
    return _SPLITS.get(split, split)


def usual_folds(split: str, folds: int) -> bool:
    """Whether a split has as many folds as in the paper: five, or the fixed one."""
    return split == "fixed" or folds == _FOLDS


def folds_text(split: str, folds: int) -> str:
    """Say how many folds, with a comma before it, where it is not the usual number.

    Examples
    --------
    >>> folds_text("shuffled", 5), folds_text("shuffled", 2)
    ('', ', 2 folds')
    """
    return "" if usual_folds(split, folds) else f", {folds} folds"


def epochs_text(epochs: int) -> str:
    """Count epochs.

    Examples
    --------
    >>> epochs_text(1), epochs_text(100)
    ('1 epoch', '100 epochs')
    """
    return f"{epochs} epoch" if epochs == 1 else f"{epochs} epochs"
