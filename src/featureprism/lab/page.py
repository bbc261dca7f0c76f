"""The report: one self-contained HTML page from what runs left in a folder, and the claims as Markdown beside it."""

import base64
import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from featureprism._files import write_whole
from featureprism.lab.printers import (
    anchor,
    html_table,
    premises_html,
    tally_html,
    to_html,
    to_markdown,
    without_tags,
)
from featureprism.lab.registry import all_papers
from featureprism.lab.reproduction import with_checksum
from featureprism.lab.rows import Row
from featureprism.lab.story import SCHEMATIC, Text, parts_of, schematic_html
from featureprism.lab.table import ClaimTable, Line, counts, in_words, show, tally

RULES = (
    "A claim holds or fails when the 95 % interval over seeds lies inside or outside its bound, and is undecided otherwise; a claim"
    " about every seed is refuted by one. Out of reach: no network of this size could meet the bound. Loose: met by more than a factor"
    " of 10, which is no evidence."
)
WEB = files("featureprism.lab") / "web"
OPEN = 3  # so many items are shown open; more are folded


Item = tuple[Row, list[Row]]  # what run.json and claims.json say


def read_items(folder: Path) -> list[Item]:
    """Every finished PAPER/ITEM below a folder; a damaged one is refused."""
    items, damaged = sound_items(folder)
    if damaged:
        raise ValueError(" ".join(damaged))
    return items


def sound_items(folder: Path) -> tuple[list[Item], list[str]]:
    """Every finished PAPER/ITEM below a folder that is sound, and a sentence about each that is not."""
    paths = sorted(folder.glob("*/*/run.json")) if folder.is_dir() else []
    paths = [path for path in paths if (path.parent / "claims.json").exists()]
    if not paths:
        raise ValueError(
            f"No results in {folder}. Run 'featureprism reproduce gmm-flow --out {folder}' first."
        )
    items, damaged = [], []
    for path in paths:
        try:
            items.append(_item(path, path.parent / "claims.json"))
        except ValueError as error:
            damaged.append(str(error))
    return items, damaged


def _item(run: Path, claims: Path) -> tuple[Row, list[Row]]:
    """Both files of an item; one that the page cannot be made from is named."""
    about, judged = _read(run), _read(claims)
    if not isinstance(about, dict):
        raise ValueError(_damaged(run, "it is no JSON object"))
    if not isinstance(judged, list) or not all(isinstance(claim, dict) for claim in judged):
        raise ValueError(_damaged(claims, "it is no list of JSON objects"))
    if "checksum" in about and about != with_checksum(about, judged):
        raise ValueError(_damaged(run.parent, "its files are not what was written"))
    for path, part in ((run, []), (claims, judged)):
        try:
            _section(about, part, run.parent)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(_damaged(path, f"{type(error).__name__}: {error}")) from error
    return about, judged


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(_damaged(path, str(error))) from error


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}); delete it and run the same 'featureprism reproduce' again: it measures nothing twice."


def write_report(folder: Path) -> Path:
    """Write folder/index.html and results.md from every PAPER/ITEM below it, and return the path of the page.

    An item whose files are damaged is left out, and named in the ValueError that comes when the page is written.
    """
    sound, damaged = sound_items(folder)
    if not sound:
        raise ValueError(" ".join(damaged))
    items = in_reading_order(sound)
    write_whole(folder / "results.md", markdown_page(items))
    page = folder / "index.html"
    papers = dict.fromkeys(about["id"].partition("/")[0] for about, _ in items)
    of_paper = {name: [item for item in items if item[0]["id"].startswith(f"{name}/")] for name in papers}
    body = "".join(_paper(name, members, folder) for name, members in of_paper.items())
    write_whole(page, html_page("featureprism report", body))
    if damaged:
        raise ValueError(f"{' '.join(damaged)} {page} has the rest.")
    return page


def in_words_of(folder: Path) -> list[str]:
    """A sentence for each paper in a folder: what was reproduced, and what came out of its headline claims."""
    items, _ = sound_items(folder)
    lines: dict[str, list[Line]] = {}
    for about, claims in in_reading_order(items):
        lines.setdefault(f"{about['id'].partition('/')[0]} at the {about['scale']} scale", []).extend(
            _table(about, claims)
        )
    sentences = []
    for paper, all_lines in lines.items():
        headlines = [line for line in all_lines if line.is_headline]
        first = f"of {len(headlines)} headline claims {in_words(counts(headlines))}; " if headlines else ""
        sentences.append(
            f"Reproduced {paper}: {first}of all {len(all_lines)} claims {in_words(counts(all_lines))}."
        )
    return sentences


def in_reading_order(items: list[tuple[Row, list[Row]]]) -> list[tuple[Row, list[Row]]]:
    """Items as their papers list them; what no installed paper lists comes last."""
    known = [experiment.id for paper in all_papers().values() for experiment in paper.experiments]
    places = {id: place for place, id in enumerate(known)}
    return sorted(items, key=lambda item: (places.get(item[0]["id"], len(places)), item[0]["id"]))


def html_page(title: str, body: str) -> str:
    """A page in the style of the report that needs nothing but itself: styles, fonts and KaTeX are inside."""
    style = "".join(
        _with_fonts((WEB / name).read_text("utf-8")) for name in ("katex.min.css", "claims.css", "page.css")
    )
    scripts = "".join(
        f"<script>{(WEB / name).read_text('utf-8')}</script>" for name in ("katex.min.js", "page.js")
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}{scripts}</body></html>"
    )


def _with_fonts(css: str) -> str:
    def embedded(match: re.Match[str]) -> str:
        data = base64.b64encode((WEB / "fonts" / match[1]).read_bytes()).decode()
        return f"url(data:font/woff2;base64,{data})"

    return re.sub(r"url\(fonts/([\w.-]+)\)", embedded, css)


def _paper(name: str, items: list[tuple[Row, list[Row]]], folder: Path) -> str:
    """The story, what came out of its headline claims, then item by item."""
    tables = {about["id"]: _table(about, claims) for about, claims in items}
    lines = [line for table in tables.values() for line in table]
    headlines = ClaimTable(
        name, tuple(line for line in lines if line.is_headline), tuple({a["scale"] for a, _ in items})
    )
    sections = "".join(
        _section(about, claims, folder / about["id"], is_open=len(items) <= OPEN) for about, claims in items
    )
    first = to_html(headlines, lambda line: f"#{anchor(line)}", _letters(name)) if len(headlines) else ""
    scales = ", ".join(dict.fromkeys(about["scale"] for about, _ in items))
    summary = f"{len(lines)} claims, measured at the {scales} scale. {tally(lines)}."
    return (
        f"{_story(name, folder)}<h2>What came out</h2><p>{escape(summary)}</p>{first}<h2>Item by item</h2>{_filters(lines)}{sections}"
        f"<details class='more'><summary>How a claim is judged</summary><p>{RULES}</p></details>"
    )


def _letters(name: str) -> dict[str, str]:
    """What the letters of a paper (or of PAPER/ITEM) mean."""
    paper = all_papers().get(name.partition("/")[0])
    return paper.letters if paper else {}


def _story(name: str, folder: Path) -> str:
    paper = all_papers().get(name)
    if paper is None or paper.story is None:
        return f"<h1>{escape(name)}</h1><p class='soft'>{escape(paper.reference) if paper else ''}</p>"
    shown = {f"{name}/{path.parent.name}" for path in folder.glob(f"{name}/*/run.json")}
    parts = []
    for part in parts_of(
        paper.story.read_text("utf-8"), lambda id: f"#{id.replace('/', '-')}" if id in shown else None
    ):
        if isinstance(part, Text):
            parts.append(part.html)
        elif part.item == SCHEMATIC:
            parts.append(schematic_html(paper.story, part))
        elif image := _image(folder / name / part.item, part.item):
            link = f" <a href='#{name}-{part.item}'>{escape(part.item)}</a>"
            parts.append(f"<figure>{image}<figcaption>{part.caption}{link}</figcaption></figure>")
    return f"<article class='story'>{''.join(parts)}</article>"


def _filters(lines: list[Line]) -> str:
    """A search field, and a choice of verdicts."""
    options = "".join(f"<option>{verdict}</option>" for verdict, count in counts(lines).items() if count)
    return (
        "<form class='filters' role='search'><label>Search <input type='search' data-filter='text' "
        "placeholder='theorem, word, claim'></label><label>Verdict <select data-filter='verdict'>"
        f"<option value=''>all</option>{options}</select></label><output></output></form>"
    )


def markdown_page(items: list[tuple[Row, list[Row]]]) -> str:
    """The claims of all items as Markdown."""
    parts = [f"# Results\n\n{RULES}\n"]
    for about, claims in items:
        words = [f"## {about['id']}: {about['title']}\n", f"{about['source']}. {_facts(about)}.\n"]
        parts += map(without_tags, words)
        parts.append(to_markdown(_table(about, claims)))
    return "\n".join(parts)


def _table(about: Row, claims: list[Row]) -> ClaimTable:
    return ClaimTable.of_rows(about["title"], about["scale"], claims)


def _facts(about: Row) -> str:
    """Scale, seeds, cost and versions."""
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    commit = f" ({about['commit']})" if about["commit"] else ""
    seeds = ", ".join(map(str, about["seeds"]))
    return (
        f"scale {about['scale']}, seeds {seeds}, {about['seconds']:.0f} s on one core, "
        f"featureprism {about['featureprism']}{commit}, {versions}"
    )


def _anchor(about: Row) -> str:
    return about["id"].replace("/", "-")


def _section(about: Row, claims: list[Row], folder: Path, *, is_open: bool = True) -> str:
    """One item, folded: what it measures, its figure, its claims, and the details of the run."""
    premises, table = about["premises"], _table(about, claims)
    image = _image(folder, about["title"])
    details = (
        f"{'<h3>Premises</h3>' + premises_html(premises, show) if premises else ''}{_attack_line(about['attack'])}"
        f"{_settings(about['settings'])}<p class='soft'>{escape(_facts(about))}</p>"
    )
    return (
        f"<details class='item' id='{_anchor(about)}'{' open' * is_open}><summary><b>{escape(about['title'])}</b> "
        f"<span class='soft'>{escape(about['source'])} · <code>{escape(about['id'])}</code></span>{tally_html(counts(table))}</summary>"
        f"<p>{escape(about['about'])}</p>{f'<figure>{image}</figure>' if image else ''}{to_html(table, letters=_letters(about['id']))}"
        f"<details class='more'><summary>Premises, settings and versions</summary>{details}</details></details>"
    )


def _attack_line(attack: Row | None) -> str:
    """What stands beside attacked radii: the attack's self-test, vanished gradients, and where plain PGD fails."""
    if attack is None:
        return ""
    passed = "passed" if attack["passed"] else "FAILED: do not believe the attacked radii"
    return (
        f"<p class=soft>Attack self-test (F³ must fall at 0.75 and hold at 0.68): {passed}. Vanished gradients on up to "
        f"{attack['zero_gradient_share']:.0%} of the points; plain PGD misses up to {attack['blind_share']:.0%} of them beyond"
        " their radius.</p>"
    )


def _image(folder: Path, title: str) -> str:
    """The figure of an item, inside the page; empty where there is none."""
    path = folder / "figure.svg"
    if not path.exists():
        return ""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}">'


def _settings(settings: list[Row]) -> str:
    columns = list(dict.fromkeys(key for setting in settings for key in setting))
    cells = ("".join(f"<td class='n'>{escape(str(s.get(c, '')))}</td>" for c in columns) for s in settings)
    table = html_table(columns, [f"<tr>{row}</tr>" for row in cells], "settings")
    return f"<h3>Settings</h3>{table}"
