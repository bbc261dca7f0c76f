"""The table of claims in the terminal, as Markdown and as HTML."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from html import escape

from featureprism.lab.rows import Row
from featureprism.lab.table import (
    MARKS,
    ClaimTable,
    Line,
    confidence,
    counts,
    expected,
    in_words,
    measured,
    verb,
    verdict,
)

WIDTH = 80  # columns of a terminal
STYLES = {"holds": "green", "fails": "red", "not published": "dim"}  # the others are yellow
Styled = tuple[str, str]  # text and style


def to_terminal(table: ClaimTable, *, all_claims: bool = True, width: int = WIDTH) -> list[Styled]:
    """A line for each claim (mark, id, measured, expected) with its sentence below, no line longer than `width`.

    With `all_claims=False` only the headline claims; the others are counted.
    """
    shown = table if all_claims else table.headlines()
    lines: list[Styled] = [(part, "bold") for part in textwrap.wrap(table.title, width)]
    first = max((len(line.id) for line in shown), default=0)
    second = max((len(measured(line.last)) for line in shown if line.last), default=0)
    for line in shown:
        style = STYLES.get(line.verdict, "yellow")
        lines.append((_numbers(line, first, second, width), style))
        lines += [(part, "") for part in _wrapped(line.claim["says"], width)]
        lines += [(part, "dim") for text in _explanations(line) for part in _wrapped(text, width)]
    others = [line for line in table if line not in shown.lines]
    if others:
        lines.append((f"  {len(others)} more: {in_words(counts(others))} (--all shows them)", "dim"))
    return lines


def _numbers(line: Line, first: int, second: int, width: int) -> str:
    """Mark, id, measured and expected in columns; columns give way where the line would be too long."""
    number = measured(line.last) if line.last else "-"
    mark = MARKS[line.verdict]
    for reported in (True, False):
        text = (
            f"{mark} {line.id:<{first}}  {number:<{second}}  {expected(line.claim, with_reported=reported)}"
        )
        if len(text) <= width:
            return text
    text = f"{mark} {line.id}  {number}  {expected(line.claim, with_reported=False)}"
    return text if len(text) <= width else text[: width - 1] + "…"


def _explanations(line: Line) -> list[str]:
    """What a mark does not say."""
    if line.last is None:
        return []
    words = verdict(line.last)
    failing = [text for text in line.remarks if text.startswith("outside its premises")]
    return [*([words] if words not in ("holds", "fails") else []), *failing]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")


def to_markdown(table: ClaimTable) -> str:
    """A Markdown table: claim and sentence, expected, and measured and verdict at each scale."""
    head = ["claim", "expected", *table.scales]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for line in table:
        failing = [text for text in line.remarks if text.startswith("outside its premises")]
        words = " ".join([f"`{line.id}` {line.claim['says']}", *(f"({text})" for text in failing)])
        cells = [words, expected(line.claim), *(_markdown_cell(line.judged.get(s)) for s in table.scales)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _markdown_cell(claim: Row | None) -> str:
    return "" if claim is None else f"{measured(claim)}, {verdict(claim)}"


def to_html(table: ClaimTable, link: Callable[[Line], str] | None = None) -> str:
    """An HTML table with one row for each claim, and a column for each scale.

    Rows can be addressed by the claim's id (`anchor`); `link` gives another address for it, on a page that only points there.
    """
    rows = []
    for line in table:
        name = f"<code>{escape(line.id)}</code>"
        place = f" id='{anchor(line)}'" if link is None else ""
        address = f"#{anchor(line)}" if link is None else link(line)
        small = "".join(f"<br><small>{escape(text)}</small>" for text in line.remarks)
        formula = line.claim.get("formula")
        math = f"<br><code class='formula'>{escape(formula)}</code>" if formula else ""
        star = " data-headline='headline'" if line.is_headline else ""
        cells = "".join(f"<td data-scale='{s}'>{_html_cell(line.judged.get(s))}</td>" for s in table.scales)
        rows.append(
            f"<tr{place}{star} data-verdict='{line.verdict}' data-origin='{line.origin}' data-regime='{_regime(line.inside)}'>"
            f"<td><a href='{address}'>{name}</a><br><small>{escape(line.claim['source'])} · {line.origin}</small></td>"
            f"<td>{escape(line.claim['says'])}{math}{small}</td><td class='n'>{escape(expected(line.claim))}</td>{cells}</tr>"
        )
    return html_table(("claim", "what it says", "expected", *table.scales), rows, "claims")


def _html_cell(claim: Row | None) -> str:
    if claim is None:
        return "<span class='none'>-</span>"
    regime = (claim.get("regime") or {}).get("inside")
    words = {True: "inside its premises", False: "outside its premises", None: ""}[regime]
    small = "".join(f"<br><small>{escape(text)}</small>" for text in (words, confidence(claim)) if text)
    kind = claim["verdict"].replace(" ", "-")
    return f"<span class='n'>{escape(measured(claim))}</span><br><b class='verdict {kind}'>{escape(verdict(claim))}</b>{small}"


def _regime(inside: bool | None) -> str:
    return {True: "inside", False: "outside", None: ""}[inside]


def anchor(line: Line) -> str:
    """The name of a claim in an address."""
    return re.sub(r"[^a-z0-9-]+", "-", line.id.lower())


def tally_html(numbers: Mapping[str, int]) -> str:
    """Counts of verdicts in their colours."""
    parts = [
        f"<b class='verdict {word.replace(' ', '-')}'>{count} {verb(word, count)}</b>"
        for word, count in numbers.items()
        if count
    ]
    return f"<span class='tally'>{' '.join(parts)}</span>"


def html_table(head: Iterable[str], rows: Iterable[str], kind: str) -> str:
    """A table that can be scrolled sideways."""
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    inner = f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<div class='atlas-scroll'><table class='atlas {kind}'>{inner}</table></div>"


def premises_html(premises: Iterable[Row], show: Callable[[float | None], str]) -> str:
    """Each premise with its tightest run, and in how many runs it holds."""
    rows = [
        f"<tr><td>{escape(p['name'])}<br><small>{escape(p['source'])} · <code>{escape(p['id'])}</code></small></td>"
        f"<td class='n'>{show(p['measured'])} {escape(p['relation'])} {show(p['required'])}</td>"
        f"<td class='verdict {'holds' if p['holding'] == p['runs'] else 'fails'}'>{p['holding']} of {p['runs']} runs</td></tr>"
        for p in premises
    ]
    return html_table(("premise", "in the tightest run", "holds in"), rows, "premises")
