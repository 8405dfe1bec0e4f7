"""Named arrays and a JSON description as a folder of two files; nothing of models.

``arrays.safetensors`` holds the numbers and ``model.json`` everything else, as text to
read. Nothing in either can be executed, and a folder that was changed after it was
written is refused.
"""

from calibrant.storage._error import StorageError
from calibrant.storage.read import read_description, read_folder
from calibrant.storage.write import check_writable, write_folder

__all__ = [
    "StorageError",
    "check_writable",
    "read_description",
    "read_folder",
    "write_folder",
]
