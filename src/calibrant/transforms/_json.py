"""Transforms as text."""

from calibrant._part_json import PartFormat
from calibrant.transforms import TRANSFORMS

__all__ = ["read_json", "write_json"]

_FORMAT = PartFormat(TRANSFORMS, "TRANSFORMS")
read_json = _FORMAT.read
write_json = _FORMAT.write
