"""The table of claims in the terminal, as Markdown and as HTML."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from html import escape

from featureprism.lab.experiment import SCALES
from featureprism.lab.letters import letters_html, words_of
from featureprism.lab.rows import Row
from featureprism.lab.story import formula_html
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
TABLE, SENTENCE = 120, 40  # columns from which there is a table, and the least for a sentence in it
STYLES = {"holds": "green", "fails": "red", "not published": "dim"}  # the others are yellow
Styled = tuple[str, str]  # text and style


def to_terminal(table: ClaimTable, *, all_claims: bool = True, width: int = WIDTH) -> list[Styled]:
    """A line for each claim (mark, id, measured, expected) with its sentence below; from 120 columns on with its sentence beside it.

    No line is longer than `width`. With `all_claims=False` only the headline claims; the others are counted.
    """
    shown = table if all_claims else table.headlines()
    lines: list[Styled] = [(part, "bold") for part in textwrap.wrap(table.title, width)]
    first = max((len(line.id) for line in shown), default=0)
    second = max((len(measured(line.last)) for line in shown if line.last), default=0)
    third = max((len(expected(line.claim)) for line in shown), default=0)
    beside = first + second + third + 8  # where sentences begin
    is_table = width >= TABLE and width - beside >= SENTENCE
    for line in shown:
        style = STYLES.get(line.verdict, "yellow")
        numbers = _numbers(line, first, second, width)
        notes = [
            (part, "dim")
            for text in _explanations(line)
            for part in _wrapped(text, width, beside * is_table or 2)
        ]
        if is_table:
            says = textwrap.wrap(line.claim["says"], width - beside)
            lines.append((f"{numbers:<{beside}}{says[0]}", style))
            lines += [(" " * beside + part, style) for part in says[1:]]
        else:
            lines.append((numbers, style))
            lines += [(part, "") for part in _wrapped(line.claim["says"], width)]
        lines += notes
    others = [line for line in table if line not in shown.lines]
    if others:
        count = f"{len(others)} {'more' if shown.lines else 'claims'}"
        lines.append((f"  {count}: {in_words(counts(others))} (--all shows them)", "dim"))
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


def _wrapped(text: str, width: int, indent: int = 2) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent)


def to_markdown(table: ClaimTable) -> str:
    """A Markdown table: claim and sentence, expected, and measured and verdict at each scale."""
    head = ["claim", "expected", *table.scales]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for line in table:
        failing = [text for text in line.remarks if text.startswith("outside its premises")]
        words = " ".join([f"`{line.id}` {line.claim['says']}", *(f"({text})" for text in failing)])
        cells = [words, expected(line.claim), *(_markdown_cell(line.judged.get(s)) for s in table.scales)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return without_tags("\n".join([*lines, ""]))


def without_tags(text: str) -> str:
    """Markdown in which what looks like a tag of HTML is text."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _markdown_cell(claim: Row | None) -> str:
    return "" if claim is None else f"{measured(claim)}, {verdict(claim)}"


def to_html(
    table: ClaimTable, link: Callable[[Line], str] | None = None, letters: Mapping[str, str] | None = None
) -> str:
    """A card for each claim: the sentence, its formula, what is expected, the number at each scale, and what its letters mean.

    A card can be addressed by the claim's id (`anchor`); `link` gives another address for it, on a page that only points there.
    """
    return f"<div class='claims'>{''.join(_card(line, link, letters or {}) for line in table)}</div>"


def _card(line: Line, link: Callable[[Line], str] | None, letters: Mapping[str, str]) -> str:
    place = f" id='{anchor(line)}'" if link is None else ""
    address = f"#{anchor(line)}" if link is None else link(line)
    headline = " data-headline='headline'" if line.is_headline else ""
    formula = line.claim.get("formula")
    notes = "".join(f"<p class='small'>{escape(text)}</p>" for text in line.notes)
    return (
        f"<article class='claim {_kind(line.verdict)}'{place}{headline} data-verdict='{line.verdict}' data-origin='{line.origin}'"
        f" data-regime='{_regime(line.inside)}'><span class='sign' aria-hidden='true'>{MARKS[line.verdict]}</span><div>"
        f"<p class='says'>{escape(line.claim['says'])}</p>{formula_html(formula, display=True) if formula else ''}"
        f"<p class='numbers'>{_numbers_html(line)}</p>"
        f"<p class='small'>{escape(line.claim['source'])} · {line.origin} · <a href='{address}'><code>{escape(line.id)}</code></a></p>"
        f"{letters_html(words_of(line.claim), letters)}{notes}</div></article>"
    )


def _numbers_html(line: Line) -> str:
    """The quantity and its bound, then value and verdict at each scale."""
    quantity, because = line.claim.get("quantity", ""), line.claim.get("because", "")
    what = f"{escape(quantity[:1].upper() + quantity[1:])}: " if quantity else ""
    why = f" <span class='small'>({escape(because)})</span>" if because else ""
    values = [_value_html(line.judged[scale], scale) for scale in SCALES if scale in line.judged]
    values += [_value_html(claim, "") for scale, claim in line.judged.items() if scale not in SCALES]
    measured_at = "".join(values) or "<span class='verdict not-published'>not published yet</span>"
    return f"{what}expected <b class='n'>{escape(expected(line.claim))}</b>{why}<span class='values'>{measured_at}</span>"


def _value_html(claim: Row, scale: str) -> str:
    """Value and verdict at one scale."""
    inside = (claim.get("regime") or {}).get("inside")
    words = ("", "outside the premises")[inside is False]
    older = "" if claim.get("is_current", True) else "measured before the item had its present form"
    small = "".join(
        f" <span class='small'>{escape(text)}</span>" for text in (words, confidence(claim), older) if text
    )
    return (
        f"<span class='value'>{f'<i>{scale}</i> ' if scale else ''}<b class='n'>{escape(measured(claim))}</b> "
        f"<b class='verdict {_kind(claim['verdict'])}'>{escape(verdict(claim))}</b>{small}</span>"
    )


def _kind(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _regime(inside: bool | None) -> str:
    return {True: "inside", False: "outside", None: ""}[inside]


def anchor(line: Line) -> str:
    """The name of a claim in an address."""
    return re.sub(r"[^a-z0-9-]+", "-", line.id.lower())


def tally_html(numbers: Mapping[str, int]) -> str:
    """Counts of verdicts in their colours."""
    parts = [
        f"<b class='verdict {_kind(word)}'>{count} {verb(word, count)}</b>"
        for word, count in numbers.items()
        if count
    ]
    return f"<span class='tally'>{' '.join(parts)}</span>"


def html_table(head: Iterable[str], rows: Iterable[str], kind: str) -> str:
    """A table that can be scrolled sideways."""
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    inner = f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<div class='wide {kind}'><table>{inner}</table></div>"


def premises_html(premises: Iterable[Row], show: Callable[[float | None], str]) -> str:
    """Each premise with its tightest run, and in how many runs it holds."""
    rows = [
        f"<tr><td>{escape(p['name'])}<br><small>{escape(p['source'])} · <code>{escape(p['id'])}</code></small></td>"
        f"<td class='n'>{show(p['measured'])} {escape(p['relation'])} {show(p['required'])}</td>"
        f"<td class='verdict {'holds' if p['holding'] == p['runs'] else 'fails'}'>{p['holding']} of {p['runs']} runs</td></tr>"
        for p in premises
    ]
    return html_table(("premise", "in the tightest run", "holds in"), rows, "premises")
