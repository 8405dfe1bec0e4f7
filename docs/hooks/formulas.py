"""Formulas as MathML, made while the site is built: no page asks for a script.

It is one extension of Markdown, for pages and docstrings alike. Pages write ``$x$`` and
``$$ x $$``; docstrings have the roles and directives of reStructuredText. Of these,
formulas become MathML, and any other role, such as that of a function, becomes code.
"""

import functools
import re
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority

ROLE = r":(\w+):`([^`]+)`"
DOLLARS = r"(?<![\\\w$])\$(?![\s$])([^$`]+?)(?<![\s\\])\$(?![\w$])"
DIRECTIVE = re.compile(r"^(?P<indent> *)\.\. math::(?P<first>.*)$")
DISPLAYED = re.compile(
    r"^(?P<indent> *)\$\$(?P<formula>.+?)\$\$ *$", re.MULTILINE | re.DOTALL
)
# TeX sets a thin space around the name of a function; MathML has none by itself.
_FUNCTION = re.compile(
    r"(?P<before></m(?:i|n|over|frac|sub|sup)>|&#x00029;</mo>)?"
    r"(?P<name><mi>(?:ln|log|exp|cos|sinh)</mi>)"
    r"(?P<bracket><mo stretchy=\"false\">&#x00028;)?"
)
_THIN = '<mspace width="0.17em"/>'


@functools.cache
def mathml(formula: str, display: str) -> str:
    """Turn LaTeX into an element, ``display`` being block or inline."""
    text = " ".join(formula.split())
    try:
        return _FUNCTION.sub(_spaced, convert(text, display=display))
    except Exception as error:
        error.add_note(f"In the formula {text}")
        raise


def _spaced(found: re.Match[str]) -> str:
    before, name, bracket = found.groups(default="")
    return before + (_THIN if before else "") + name + (bracket or _THIN)


def block(formula: str) -> str:
    """Return a formula on lines of its own, which scrolls where it is too wide."""
    return f'<div class="formula">{mathml(formula, "block")}</div>'


class DisplayedFormulas(Preprocessor):
    """Formulas on lines of their own."""

    def run(self, lines: list[str]) -> list[str]:
        """Replace them before anything else is read; code is hidden by then."""
        text = "\n".join(self._directives(lines))
        return DISPLAYED.sub(
            lambda found: self._stored(found["indent"], found["formula"]), text
        ).split("\n")

    def _directives(self, lines: list[str]) -> list[str]:
        result, rest = [], list(lines)
        while rest:
            line = rest.pop(0)
            found = DIRECTIVE.match(line)
            if found is None:
                result.append(line)
                continue
            formula, deeper = [found["first"]], found["indent"] + " "
            while rest and (rest[0].startswith(deeper) or not rest[0].strip()):
                formula.append(rest.pop(0))
            result += self._stored(found["indent"], "\n".join(formula)).split("\n")
        return result

    def _stored(self, indent: str, formula: str) -> str:
        place = self.md.htmlStash.store(block(formula))
        return f"\n{indent}{place}\n"


class Role(InlineProcessor):
    """What docstrings mark with a role."""

    def handleMatch(  # noqa: N802
        self,
        m: re.Match[str],
        data: str,  # noqa: ARG002  (Markdown's signature)
    ) -> tuple[Any, int, int]:
        """Return a formula, or the last name of a function or class as code."""
        kind, text = m.groups()
        if kind == "math":
            return self.md.htmlStash.store(mathml(text, "inline")), m.start(), m.end()
        element = ElementTree.Element("code")
        element.text = text.rsplit(".", 1)[-1] if text.startswith("~") else text
        return element, m.start(), m.end()


class Dollars(InlineProcessor):
    """Formulas within a line."""

    def handleMatch(  # noqa: N802
        self,
        m: re.Match[str],
        data: str,  # noqa: ARG002  (Markdown's signature)
    ) -> tuple[str, int, int]:
        """Return the formula."""
        return self.md.htmlStash.store(mathml(m[1], "inline")), m.start(), m.end()


class Formulas(Extension):
    """All of it."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Add the parts: after fenced code is hidden, and around inline code."""
        md.preprocessors.register(DisplayedFormulas(md), "displayed_formulas", 22)
        md.inlinePatterns.register(Role(ROLE, md), "role", 200)
        md.inlinePatterns.register(Dollars(DOLLARS, md), "dollars", 189)


@event_priority(100)  # before the plugin that reads docstrings takes the list
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let all pages and docstrings have formulas."""
    config.markdown_extensions.append(Formulas())
    return config
