"""Recalibrators as text."""

from calibrant._part_json import PartFormat
from calibrant.recalibration import RECALIBRATORS

__all__ = ["read_json", "write_json"]

_FORMAT = PartFormat(RECALIBRATORS, "RECALIBRATORS")
read_json = _FORMAT.read
write_json = _FORMAT.write
