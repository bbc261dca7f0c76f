"""The report: one self-contained HTML page from what runs left in a folder, and the claims as Markdown beside it."""

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from featureprism.files import write_whole
from featureprism.lab.printers import html_table, premises_html, to_html, to_markdown
from featureprism.lab.reproduction import with_checksum
from featureprism.lab.rows import Row
from featureprism.lab.table import ClaimTable, show, tally

RULES = (
    "A claim holds or fails when the 95 % interval over seeds lies inside or outside its bound, and is undecided otherwise; a claim"
    " about every seed is refuted by one. Out of reach: no network of this size could meet the bound. Loose: met by more than a factor"
    " of 10, which is no evidence."
)
CSS = """
:root{--ink:#1d2430;--soft:#5b6675;--line:#dfe4ea;--good:#0a7a4b;--bad:#b3261e;--unknown:#8a6100;--paper:#fff;--wash:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa6b5;--line:#323b47;--good:#5bd199;--bad:#ff8a80;
--unknown:#ffcf66;--paper:#14181e;--wash:#1b2129}img{background:#fff;border-radius:6px}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1.5rem;font-size:1.3rem}
h3{font-size:1rem;margin:1.5rem 0 .3rem}.soft{color:var(--soft);font-size:.9rem}img{max-width:100%;margin:.5rem 0}
table{border-collapse:collapse;width:100%;font-size:.88rem}th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}td.n,span.n{white-space:nowrap;
font-variant-numeric:tabular-nums}.holds{color:var(--good)}.fails{color:var(--bad)}.undecided,.not-measured,.out-of-reach{color:var(--unknown)}small{color:var(--soft)}
code{font-size:.85em}details{margin:.6rem 0}summary{cursor:pointer;color:var(--soft)}nav a{margin-right:1rem}
.atlas-scroll{overflow-x:auto}a{color:inherit}
"""


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
    items, damaged = sound_items(folder)
    if not items:
        raise ValueError(" ".join(damaged))
    lines = [line for about, claims in items for line in _table(about, claims)]
    links = " ".join(f'<a href="#{_anchor(about)}">{escape(about["id"])}</a>' for about, _ in items)
    sections = "".join(_section(about, claims, folder / about["id"]) for about, claims in items)
    write_whole(folder / "results.md", markdown_page(items))
    page = folder / "index.html"
    write_whole(
        page,
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
        f'content="width=device-width,initial-scale=1"><title>featureprism report</title><style>{CSS}</style></head>'
        "<body><h1>What features does gradient descent find?</h1>"
        f"<p class=soft>{len(items)} experiments, {len(lines)} claims. {escape(tally(lines))}.</p>"
        f"<p class=soft>{RULES}</p><nav>{links}</nav>{sections}</body></html>",
    )
    if damaged:
        raise ValueError(f"{' '.join(damaged)} {page} has the rest.")
    return page


def markdown_page(items: list[tuple[Row, list[Row]]]) -> str:
    """The claims of all items as Markdown."""
    parts = [f"# Results\n\n{RULES}\n"]
    for about, claims in items:
        parts += [f"## {about['id']}: {about['title']}\n", f"{about['source']}. {_facts(about)}.\n"]
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


def _section(about: Row, claims: list[Row], folder: Path) -> str:
    premises = about["premises"]
    return (
        f'<section id="{_anchor(about)}"><h2>{escape(about["title"])}</h2>'
        f"<p class=soft>{escape(about['source'])} · <code>{escape(about['id'])}</code></p>"
        f"<p>{escape(about['about'])}</p>{_figure(folder, about['title'])}"
        f"{to_html(_table(about, claims))}{_attack_line(about['attack'])}"
        f"{'<h3>Premises</h3>' + premises_html(premises, show) if premises else ''}"
        f"{_settings(about['settings'])}<p class=soft>{escape(_facts(about))}</p></section>"
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


def _figure(folder: Path, title: str) -> str:
    path = folder / "figure.svg"
    if not path.exists():
        return ""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}">'


def _settings(settings: list[Row]) -> str:
    columns = list(dict.fromkeys(key for setting in settings for key in setting))
    cells = ("".join(f"<td class='n'>{escape(str(s.get(c, '')))}</td>" for c in columns) for s in settings)
    table = html_table(columns, [f"<tr>{row}</tr>" for row in cells], "settings")
    return f"<details><summary>Settings</summary>{table}</details>"
