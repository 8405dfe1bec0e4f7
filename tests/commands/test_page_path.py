"""A report never takes the place of something else."""

from pathlib import Path

import pytest

from calibrant._checks import InputError
from calibrant.commands.measuring import page_path


def test_a_page_has_its_own_place(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert page_path(None) is None
    assert page_path(page, tmp_path / "table.csv") == page
    page.write_text("")
    assert page_path(page, tmp_path / "table.csv") == page
    (tmp_path / "link.html").symlink_to(page)
    with pytest.raises(InputError, match="must not replace what it is about"):
        page_path(tmp_path / "link.html", page)
    with pytest.raises(InputError, match=r"must end in \.html"):
        page_path(tmp_path / "model.json")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match="this is a folder"):
        page_path(tmp_path / "folder.html")
    with pytest.raises(InputError, match="there is no folder"):
        page_path(tmp_path / "none" / "page.html")
