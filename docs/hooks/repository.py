"""Files of the repository that pages link to, such as ``../results/x.svg``.

They lie outside of ``docs``, where a page in the repository finds them. The site gets a
copy of each, in its folder ``repository``.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()\.\./([^)\s#]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what the pages link to."""
    found = {
        path
        for page in files.documentation_pages()
        if "/" not in page.src_uri and page.src_uri.endswith(".md")
        for path in LINK.findall(page.content_string)
    }
    for path in sorted(found):
        if (ROOT / path).is_file():
            place, source = f"repository/{path}", str(ROOT / path)
            files.append(File.generated(config, place, abs_src_path=source))
    return files


def on_page_markdown(
    markdown: str,
    *,
    page: Page,
    config: MkDocsConfig,  # noqa: ARG001
    files: Files,  # noqa: ARG001
) -> str:
    """Let the links lead there."""
    if "/" in page.file.src_uri:
        return markdown
    return LINK.sub(r"repository/\1", markdown)
