"""What is known of a data set before its file is read."""

from dataclasses import dataclass

__all__ = ["DataSetInfo"]


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
