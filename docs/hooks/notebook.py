"""The notebook's page without the scripts that its converter asks the network for.

They would set formulas and draw diagrams, of which the notebook has none.
"""

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.IGNORECASE | re.DOTALL)
FROM_ELSEWHERE = re.compile(r"src=\"(?:(?:https?:)?//[^\"]*)?\"|x-mathjax-config")


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Leave them out."""
    if page.file.src_uri.endswith(".ipynb"):
        return SCRIPT.sub(_kept, output)
    return output


def _kept(script: re.Match[str]) -> str:
    attributes, code = script.groups()
    fetches = "module" in attributes and "https://" in code
    return "" if fetches or FROM_ELSEWHERE.search(attributes) else script[0]
