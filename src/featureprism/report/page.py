"""The report: one self-contained HTML page from what runs left in a folder, and the claims as Markdown beside it."""

import base64
import json
from html import escape
from pathlib import Path

from featureprism.records import Claim, Row
from featureprism.report.terminal import expectation, show, verdict
from featureprism.sweep import finished_rows

CSS = """
:root{--ink:#1d2430;--soft:#5b6675;--line:#dfe4ea;--good:#0a7a4b;--bad:#b3261e;--unknown:#8a6100;--paper:#fff;--wash:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa6b5;--line:#323b47;--good:#5bd199;--bad:#ff8a80;
--unknown:#ffcf66;--paper:#14181e;--wash:#1b2129}img{background:#fff;border-radius:6px}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1.5rem;font-size:1.3rem}
h3{font-size:1rem;margin:1.5rem 0 .3rem}.soft{color:var(--soft);font-size:.9rem}img{max-width:100%;margin:.5rem 0}
table{border-collapse:collapse;width:100%;font-size:.88rem}th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:.35rem .6rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}td.n{white-space:nowrap;
font-variant-numeric:tabular-nums}.holds{color:var(--good)}.fails{color:var(--bad)}.unknown{color:var(--unknown)}
code{font-size:.85em}details{margin:.6rem 0}summary{cursor:pointer;color:var(--soft)}nav a{margin-right:1rem}
.scroll{overflow-x:auto}a{color:inherit}
"""


def write_report(folder: Path) -> Path:
    """Write folder/index.html and results.md from every PAPER/ITEM below it, and return the path of the page."""
    items = sorted(folder.glob("*/*/run.json")) if folder.is_dir() else []
    items = [path.parent for path in items if (path.parent / "claims.json").exists()]
    if not items:
        raise ValueError(
            f"No results in {folder}. Run 'featureprism reproduce gmm-flow --out {folder}' first."
        )
    sections, claims, tables = [], [], []
    for item in items:
        section, own = _section(item)
        sections.append(section)
        tables.append(_markdown(_name(item), own))
        claims += own
    (folder / "results.md").write_text("\n".join(tables), encoding="utf-8")
    page = folder / "index.html"
    links = " ".join(f'<a href="#{_anchor(i)}">{escape(_name(i))}</a>' for i in items)
    counts = {word: sum(verdict(c.holds) == word for c in claims) for word in ("holds", "fails", "unknown")}
    summary = ", ".join(f'<span class="{w}">{n} {_verb(w, n)}</span>' for w, n in counts.items() if n)
    page.write_text(
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
        f'content="width=device-width,initial-scale=1"><title>featureprism report</title><style>{CSS}</style></head>'
        "<body><h1>What features does gradient descent find?</h1>"
        f"<p class=soft>featureprism report: {len(items)} experiments, {len(claims)} claims: {summary}.</p>"
        f"<nav>{links}</nav>{''.join(sections)}</body></html>",
        encoding="utf-8",
    )
    return page


def _markdown(name: str, claims: list[Claim]) -> str:
    """The claims of one item as a Markdown table."""
    lines = [f"### {name}\n", "| claim | measured | expected | |", "|---|---|---|---|"]
    for c in claims:
        spread = "" if c.spread != c.spread else f" ± {c.spread:.2g}"
        statement = c.statement.replace("|", "\\|")
        row = f"`{c.id}` {statement}", show(c.measured) + spread, expectation(c), verdict(c.holds)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _verb(word: str, count: int) -> str:
    return word if count == 1 or word == "unknown" else word.removesuffix("s")


def _name(item: Path) -> str:
    return f"{item.parent.name}/{item.name}"


def _anchor(item: Path) -> str:
    return _name(item).replace("/", "-")


def _section(item: Path) -> tuple[str, list[Claim]]:
    about = json.loads((item / "run.json").read_text())
    claims = [_claim(row) for row in json.loads((item / "claims.json").read_text())]
    stored = finished_rows(item / "rows.jsonl")
    rows = [row for unit in about["units"] for row in stored.get(unit, [])]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    facts = f"scale {about['scale']} · seeds {', '.join(map(str, about['seeds']))} · {about['seconds']:.0f} s · {versions}"
    html = (
        f'<section id="{_anchor(item)}"><h2>{escape(about["title"])}</h2>'
        f"<p class=soft>{escape(about['source'])} · <code>{escape(about['id'])}</code></p>"
        f"<p>{escape(about['about'])}</p>{_figure(item, about['title'])}"
        f"<h3>Claims</h3>{_claims_table(claims)}{_attack_line(rows)}{_premises_table(rows)}"
        f"{_settings_table(about['settings'])}<p class=soft>{escape(facts)}</p></section>"
    )
    return html, claims


def _attack_line(rows: list[Row]) -> str:
    """What stands beside attacked radii: the attack's self-test, vanished gradients, and where plain PGD fails."""
    found = [r for r in rows if r.get("self_test_passed") is not None]
    if not found:
        return ""
    passed = (
        "passed" if all(r["self_test_passed"] for r in found) else "FAILED: do not believe the attacked radii"
    )
    zero, blind = (
        max((r[name] for r in found if r.get(name) == r.get(name) and r.get(name) is not None), default=0.0)
        for name in ("zero_gradient_share", "blind_share")
    )
    return (
        f"<p class=soft>Attack self-test (F³ must fall at 0.75 and hold at 0.68): {passed}. Vanished gradients on up to {zero:.0%} of"
        f" the points; plain PGD misses up to {blind:.0%} of them beyond their radius.</p>"
    )


def _claim(row: Row) -> Claim:
    fields = {k: v for k, v in row.items() if k != "holds"}
    for name in ("measured", "spread"):
        fields[name] = float("nan") if fields[name] is None else fields[name]
    if isinstance(fields["bound"], list):
        fields["bound"] = tuple(fields["bound"])
    return Claim(**fields)


def _figure(item: Path, title: str) -> str:
    path = item / "figure.svg"
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


def _claims_table(claims: list[Claim]) -> str:
    rows = []
    for c in claims:
        spread = "" if c.spread != c.spread else f" ± {c.spread:.2g}"
        said = (
            f"<td>{escape(c.statement)}"
            + (f"<br><span class=soft>{escape(c.note)}</span>" if c.note else "")
            + "</td>"
        )
        rows.append(
            [
                f"<td><code>{escape(c.id)}</code><br><span class=soft>{escape(c.source)}</span></td>",
                said,
                _cell(f"{show(c.measured)}{spread} ({c.num_seeds} seeds)", "n"),
                _cell(expectation(c), "n"),
                _cell(verdict(c.holds), verdict(c.holds)),
            ]
        )
    return _table(["claim", "the paper says", "measured", "expected", ""], rows)


def _premises_table(rows: list[Row]) -> str:
    """Each premise with its least slack over all runs, and in how many it holds."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["kind"] == "premise":
            groups.setdefault((row["name"], row["relation"], row["source"]), []).append(row)
    if not groups:
        return ""
    table = []
    for (name, relation, source), found in groups.items():
        worst = min(found, key=lambda r: r["slack"])
        holding = sum(bool(r["holds"]) for r in found)
        kind = "holds" if holding == len(found) else "fails"
        table.append(
            [
                f"<td>{escape(name)}<br><span class=soft>{escape(source)}</span></td>",
                _cell(f"{show(worst['measured'])} {relation} {show(worst['required'])}", "n"),
                _cell(show(worst["slack"]), "n"),
                _cell(f"{holding} of {len(found)} runs", kind),
            ]
        )
    return "<h3>Premises</h3>" + _table(["premise", "tightest run", "slack", "holds in"], table)


def _settings_table(settings: list[Row]) -> str:
    columns = list(dict.fromkeys(key for setting in settings for key in setting))
    rows = [[_cell(str(setting.get(c, "")), "n") for c in columns] for setting in settings]
    return f"<details><summary>Settings</summary>{_table(columns, rows)}</details>"
