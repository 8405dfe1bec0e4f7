"""The ten data sets of the paper by name; no data is read here."""

import tomllib
from dataclasses import dataclass
from importlib import resources

from calibrant.registry import Table

__all__ = ["DATA_SETS", "DataSetInfo"]


@dataclass(frozen=True, kw_only=True)
class DataSetInfo:
    """One entry of ``DATA_SETS``.

    Attributes
    ----------
    name
        What :func:`calibrant.data.load` takes.
    title
        For headings.
    rows, features
        How many there are.
    target
        Name of the target.
    description
        What the rows are, and what to know before using them.
    license, citation
        Terms of use, and whom to credit.
    source
        Web address of the origin.
    csv_sha256
        SHA-256 of the CSV inside of the bundled file, in hexadecimal; None if the set
        is not bundled.

    Examples
    --------
    >>> from calibrant.data import DATA_SETS
    >>> DATA_SETS["yacht"].rows, DATA_SETS["yacht"].features
    (308, 6)
    >>> [name for name, info in DATA_SETS.items() if not info.bundled]
    ['year_msd']
    """

    name: str
    title: str
    rows: int
    features: int
    target: str
    description: str
    license: str
    citation: str
    source: str
    csv_sha256: str | None = None

    @property
    def bundled(self) -> bool:
        """Whether the package itself holds the file."""
        return self.csv_sha256 is not None


def _table() -> Table[DataSetInfo]:
    table: Table[DataSetInfo] = Table("data set", {})
    text = (resources.files("calibrant.data") / "data_sets.toml").read_text("utf-8")
    for name, entry in tomllib.loads(text).items():
        table[name] = DataSetInfo(name=name, **entry)
    return table


#: Name to what is known of the set, in alphabetical order.
DATA_SETS = _table()
