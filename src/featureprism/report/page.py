"""The report: one self-contained HTML page from what runs left in a folder, and the claims as Markdown beside it."""

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from featureprism.files import write_whole
from featureprism.records import Row
from featureprism.report import claims as words
from featureprism.report.claims import show
from featureprism.report.markdown import results_page

CSS = """
:root{--ink:#1d2430;--soft:#5b6675;--line:#dfe4ea;--good:#0a7a4b;--bad:#b3261e;--unknown:#8a6100;--paper:#fff;--wash:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa6b5;--line:#323b47;--good:#5bd199;--bad:#ff8a80;
--unknown:#ffcf66;--paper:#14181e;--wash:#1b2129}img{background:#fff;border-radius:6px}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1.5rem;font-size:1.3rem}
h3{font-size:1rem;margin:1.5rem 0 .3rem}.soft{color:var(--soft);font-size:.9rem}img{max-width:100%;margin:.5rem 0}
table{border-collapse:collapse;width:100%;font-size:.88rem}th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}td.n{white-space:nowrap;
font-variant-numeric:tabular-nums}.holds{color:var(--good)}.fails{color:var(--bad)}.undecided,.unmeasured{color:var(--unknown)}.loose{color:var(--soft)}
code{font-size:.85em}details{margin:.6rem 0}summary{cursor:pointer;color:var(--soft)}nav a{margin-right:1rem}
.scroll{overflow-x:auto}a{color:inherit}
"""


def read_items(folder: Path) -> list[tuple[Row, list[Row]]]:
    """Every finished PAPER/ITEM below a folder: what run.json and claims.json say."""
    paths = sorted(folder.glob("*/*/run.json")) if folder.is_dir() else []
    paths = [path for path in paths if (path.parent / "claims.json").exists()]
    if not paths:
        raise ValueError(
            f"No results in {folder}. Run 'featureprism reproduce gmm-flow --out {folder}' first."
        )
    return [_item(path, path.parent / "claims.json") for path in paths]


def _item(run: Path, claims: Path) -> tuple[Row, list[Row]]:
    """Both files of an item; one that the page cannot be made from is named."""
    about, own = _read(run), _read(claims)
    if not isinstance(about, dict):
        raise ValueError(_damaged(run, "it is no JSON object"))
    if not isinstance(own, list) or not all(isinstance(claim, dict) for claim in own):
        raise ValueError(_damaged(claims, "it is no list of JSON objects"))
    for path, part in ((run, []), (claims, own)):
        try:
            _section(about, part, run.parent)
            results_page([(about, part)])
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(_damaged(path, f"{type(error).__name__}: {error}")) from error
    return about, own


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(_damaged(path, str(error))) from error


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged ({why}); delete it and run the same 'featureprism reproduce' again: it measures nothing twice."


def write_report(folder: Path) -> Path:
    """Write folder/index.html and results.md from every PAPER/ITEM below it, and return the path of the page."""
    items = read_items(folder)
    claims = [claim for _, own in items for claim in own]
    links = " ".join(f'<a href="#{_anchor(about)}">{escape(about["id"])}</a>' for about, _ in items)
    sections = "".join(_section(about, own, folder / about["id"]) for about, own in items)
    write_whole(folder / "results.md", results_page(items))
    page = folder / "index.html"
    write_whole(
        page,
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
        f'content="width=device-width,initial-scale=1"><title>featureprism report</title><style>{CSS}</style></head>'
        "<body><h1>What features does gradient descent find?</h1>"
        f"<p class=soft>{len(items)} experiments, {len(claims)} claims. {escape(words.tally(claims))}.</p>"
        "<p class=soft>A claim holds or fails when the 95 % interval over seeds (Student's t) lies inside or outside its bound; a claim"
        " about every seed is refuted by one. Loose: met by more than a factor of 10, which is no evidence.</p>"
        f"<nav>{links}</nav>{sections}</body></html>",
    )
    return page


def _anchor(about: Row) -> str:
    return about["id"].replace("/", "-")


def _section(about: Row, claims: list[Row], folder: Path) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    facts = (
        f"scale {about['scale']} · seeds {', '.join(map(str, about['seeds']))} · {about['seconds']:.0f} s · "
        f"featureprism {about['featureprism']}{f' ({commit})' if (commit := about['commit']) else ''}, {versions}"
    )
    return (
        f'<section id="{_anchor(about)}"><h2>{escape(about["title"])}</h2>'
        f"<p class=soft>{escape(about['source'])} · <code>{escape(about['id'])}</code></p>"
        f"<p>{escape(about['about'])}</p>{_figure(folder, about['title'])}"
        f"{_claims_tables(claims)}{_attack_line(about['attack'])}{_premises_table(about['premises'])}"
        f"{_settings_table(about['settings'])}<p class=soft>{escape(facts)}</p></section>"
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


def _table(columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = "".join("<tr>" + "".join(row) + "</tr>" for row in rows)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{escape(text)}</td>'


def _claims_tables(claims: list[Row]) -> str:
    """One table for each section: the paper inside its premises, outside them, and what is ours."""
    columns = ["claim", "statement", "measured", "expected", "÷ bound", ""]
    return "".join(
        f"<h3>{escape(name[0].upper() + name[1:])}</h3>{_table(columns, [_claim(claim) for claim in part])}"
        for name, part in words.in_sections(claims).items()
    )


def _claim(claim: Row) -> list[str]:
    remarks = [text for text in (words.premises(claim), claim["note"]) if text]
    small = "".join(f"<br><span class=soft>{escape(text)}</span>" for text in remarks)
    kind = "unmeasured" if claim["verdict"] == "not measured" else claim["verdict"]
    return [
        f"<td><code>{escape(claim['id'])}</code><br><span class=soft>{escape(claim['source'])}</span></td>",
        f"<td>{escape(claim['says'])}{small}</td>",
        _cell(f"{words.measured(claim)} ({len(claim['values'])} seeds)", "n"),
        _cell(words.expected(claim), "n"),
        _cell(words.slack(claim), "n loose" if claim["loose"] else "n"),
        _cell(words.verdict(claim), kind),
    ]


def _premises_table(premises: list[Row]) -> str:
    """Each premise with its least slack over all runs, and in how many it holds."""
    if not premises:
        return ""
    rows = [
        [
            f"<td>{escape(p['name'])}<br><span class=soft>{escape(p['source'])} · <code>{escape(p['id'])}</code></span></td>",
            _cell(f"{show(p['measured'])} {p['relation']} {show(p['required'])}", "n"),
            _cell(show(p["slack"]), "n"),
            _cell(f"{p['holding']} of {p['runs']} runs", "holds" if p["holding"] == p["runs"] else "fails"),
        ]
        for p in premises
    ]
    return "<h3>Premises</h3>" + _table(["premise", "tightest run", "slack", "holds in"], rows)


def _settings_table(settings: list[Row]) -> str:
    columns = list(dict.fromkeys(key for setting in settings for key in setting))
    rows = [[_cell(str(setting.get(c, "")), "n") for c in columns] for setting in settings]
    return f"<details><summary>Settings</summary>{_table(columns, rows)}</details>"
