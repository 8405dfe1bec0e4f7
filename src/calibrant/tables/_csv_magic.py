"""Files that are called .csv and hold something else."""

from calibrant.tables._errors import input_error

__all__ = ["check_is_text"]

_UTF16 = "the text is in UTF-16. Save it as CSV UTF-8."
_PACKED = "the file is compressed in a way that is not read. Unpack it first."
_BEGINNINGS = {
    b"PK\x03\x04": "this looks like an Excel or zip file. Save the sheet as CSV UTF-8.",
    b"\xd0\xcf\x11\xe0": "this looks like an Excel file. Save the sheet as CSV UTF-8.",
    b"PAR1": "this is a Parquet file. Let its name end in .parquet.",
    b"ARROW1": "this is an Arrow file. Save it as CSV or Parquet.",
    b"%PDF": "this is a PDF file. Save the table as CSV UTF-8.",
    b"SQLite format 3": "this is a database. Save the table as CSV UTF-8.",
    b"\x89HDF": "this is an HDF5 file. Save the table as CSV or Parquet.",
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    b"\x1f\x8b": "the file is compressed twice. Unpack it first.",
    b"BZh": _PACKED,
    b"\xfd7zXZ\x00": _PACKED,
    b"\x28\xb5\x2f\xfd": _PACKED,
    b"7z\xbc\xaf\x27\x1c": _PACKED,
}
_WEB = (b"<!doctype", b"<html", b"<?xml")


def check_is_text(beginning: bytes, name: str) -> None:
    """Refuse content that is no table of text, by its first bytes."""
    for start, text in _BEGINNINGS.items():
        if beginning.startswith(start):
            raise input_error(f"{name}: {text}")
    head = beginning.strip(b"\xef\xbb\xbf \t\r\n")[:4096]
    if not head:
        raise input_error(f"{name}: the file holds nothing but spaces or empty lines.")
    if head.lower().startswith(_WEB):
        raise input_error(
            f"{name}: this is a web page or XML, not a table. Download or save the "
            "table as CSV."
        )
    if head.startswith((b"[{", b"{")) and b":" in head:
        raise input_error(f"{name}: this looks like JSON. Save the table as CSV.")
    if head.count(b"\0") > len(head) // 10:
        raise input_error(
            f"{name}: this is no text in UTF-8: it is full of NUL bytes. Save the "
            "table as CSV UTF-8."
        )
