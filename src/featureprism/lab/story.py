"""The story of a paper: Markdown with formulas and figures, for the report and for the site.

Formulas stand between dollar signs and are typeset in the browser by KaTeX. A paragraph `![caption](ITEM)` is the figure of an
item of the paper; every page puts its own picture there. `![caption](schematic)` is the drawing in schematic.html beside the story.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL)
FIGURE = re.compile(r"^!\[(?P<caption>[^\]]*(?:\][^(\]]*)*)\]\((?P<item>[\w-]+)\)[ \t]*$", re.MULTILINE)
SCHEMATIC = "schematic"  # the name of the drawing among the figures of a story
PLACE = "\x02{}\x03"  # stands for a formula while Markdown is read


@dataclass(frozen=True)
class Text:
    """A piece of a story, as HTML."""

    html: str


@dataclass(frozen=True)
class Figure:
    """The figure of an item, and what to look for in it (HTML)."""

    item: str
    caption: str


def parts_of(story: str, address: Callable[[str], str | None] = lambda _: None) -> list[Text | Figure]:
    """The story in pieces: text, and figures between them.

    `address` gives where PAPER/ITEM is shown; such names become links.
    """

    def text(source: str) -> Text:
        return Text(_linked(to_html(source), address))

    parts: list[Text | Figure] = []
    end = 0
    for match in FIGURE.finditer(story):
        parts += [text(story[end : match.start()]), Figure(match["item"], inline_html(match["caption"]))]
        end = match.end()
    return [*parts, text(story[end:])]


def schematic_html(story: Path, figure: Figure) -> str:
    """The drawing of data and network that lies beside a story."""
    drawing = story.with_name(f"{SCHEMATIC}.html").read_text("utf-8")
    flat = " ".join(drawing.split("\n"))
    return f"<figure>{flat}<figcaption>{figure.caption}</figcaption></figure>"


def _linked(html: str, address: Callable[[str], str | None]) -> str:
    """Names of items in code become links."""

    def link(match: re.Match[str]) -> str:
        place = address(match[1])
        return f'<a href="{escape(place)}">{match[0]}</a>' if place else match[0]

    return re.sub(r"<code>([a-z][a-z-]*/[\w-]+)</code>", link, html)


def to_html(text: str) -> str:
    """Markdown with formulas as HTML; HTML inside the text is shown as text."""
    return _rendered(text, inline=False)


def inline_html(text: str) -> str:
    """The same for a piece of a sentence."""
    return _rendered(text, inline=True)


def formula_html(latex: str, *, display: bool = False) -> str:
    """A formula, to be typeset by KaTeX; readable as LaTeX without it."""
    kind = "math display" if display else "math"
    return f'<span class="{kind}">{escape(latex.strip())}</span>'


def _rendered(text: str, *, inline: bool) -> str:
    """Formulas are set aside while Markdown is read, since it would take their underscores for emphasis."""
    formulas: list[str] = []

    def set_aside(match: re.Match[str]) -> str:
        formulas.append(formula_html(match[1] or match[2], display=match[1] is not None))
        return PLACE.format(len(formulas) - 1)

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    source = FORMULA.sub(set_aside, text)
    html = markdown.renderInline(source) if inline else markdown.render(source)
    for i, formula in enumerate(formulas):
        html = html.replace(PLACE.format(i), formula)
    return html
