"""One page to hand over: what was asked of a model, what is proven, which points are weakest and why, and how to check it."""

import hashlib
import re
from html import escape
from pathlib import Path

import numpy as np

from featureprism._files import write_whole
from featureprism.brackets import RadiusBracket
from featureprism.lab.intervals import share_interval

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1f24; background: #f5f6f8; margin: 0; }
main { max-width: 860px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.7rem; margin: .2em 0; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin: 0 0 .5em; }
section { background: #fff; border: 1px solid #dfe3e8; border-radius: 10px; padding: 18px 20px; margin: 16px 0; overflow-x: auto; }
.lead { font-size: 1.15rem; } .small { font-size: .85rem; color: #4a545e; }
.numbers { display: flex; flex-wrap: wrap; gap: 12px; }
.numbers div { flex: 1 1 150px; background: #eef4fa; border-radius: 8px; padding: 10px 14px; }
.numbers b { display: block; font-size: 1.5rem; color: #0a5a93; } .numbers span { font-size: .85rem; color: #4a545e; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
td, th { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid #edf0f3; vertical-align: top; }
code, pre { font-family: ui-monospace, monospace; font-size: .85rem; background: #f0f2f5; border-radius: 6px; overflow-wrap: anywhere; }
code { padding: 1px 4px; } pre { padding: 10px; white-space: pre-wrap; }
svg { max-width: 100%; height: auto; } figure { margin: 0; } li { margin: .35em 0; }
@media print { body { background: #fff; font-size: 11pt; } main { padding: 0; max-width: none; }
  section { break-inside: avoid; border-color: #bbb; margin: 10px 0; } a { color: inherit; } }
"""
CODE = re.compile(r"`([^`]*)`")
AT = (0.25, 0.5, 1.0)  # times the median: where the table reads the curve


def write_page(bracket: RadiusBracket, out: Path, model: Path, data: Path, flags: str) -> Path:
    """Write out/report.html, which needs nothing but itself; `flags` are those that `check` needs to state the same question."""
    moved = bracket.explain()
    steps = bracket.next_steps(moved)
    right = bracket.attacked > 0
    sections = [
        _head(bracket, model, data),
        _section("Robust accuracy against the size of a change", _curve(bracket)),
        _section("What moved in the weakest points", moved._repr_html_()),
        _section(
            "What now",
            "<ul>" + "".join(f"<li>{_with_code(step)}</li>" for step in steps) + "</ul>",
        )
        if steps
        else "",
        _section("What is proven, and how to check it", _proofs(bracket, out, model, data, flags)),
    ]
    title = f"Robustness of {model.name} on {int(right.sum())} of {len(bracket)} points"
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{''.join(sections)}</main></body></html>"
    )
    path = out / "report.html"
    write_whole(path, page)
    return path


def _with_code(text: str) -> str:
    return CODE.sub(r"<code>\1</code>", escape(text))


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _head(bracket: RadiusBracket, model: Path, data: Path) -> str:
    low, high = bracket.half_radius
    right, n = bracket.attacked > 0, len(bracket)
    proven = bool(bracket.certified.any())
    sentence = (
        f"Half of the points keep their answer under every change up to {low:.3g} (proven); a change of {high:.3g} breaks half of them."
        if proven
        else f"A change of {high:.3g} breaks half of the points. Nothing is proven, so smaller changes may break them too."
    )
    closed = int((bracket.gap[right] <= 0.01).sum())
    accuracy = share_interval(int(right.sum()), n)
    numbers = [
        (
            f"{right.mean():.0%}",
            f"accuracy without changes (95 % interval {accuracy[0]:.0%} to {accuracy[1]:.0%})",
        ),
        (f"{low:.3g}" if proven else "none", "proven: half of the points hold at least so far"),
        (f"{high:.3g}", "attacked: half of the points break within"),
        (f"{closed} of {int(right.sum())}", "points whose radius is known to 1 %"),
    ]
    tiles = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(words)}</span></div>" for value, words in numbers
    )
    return (
        f"<h1>How far is {escape(model.name)} from breaking?</h1><p class='lead'>{escape(sentence)}</p>"
        f"<section><div class='numbers'>{tiles}</div>"
        f"<p class='small'>{n} points of {escape(data.name)}. Radii are {escape(bracket.measure)}.</p></section>"
    )


def _curve(bracket: RadiusBracket) -> str:
    """The curve, and shares of points with intervals for points drawn like these."""
    from featureprism.lab.bracket_figure import curve_as_svg  # brings matplotlib along

    low, high = bracket.half_radius
    middle, n = high if np.isfinite(high) and high > 0 else low, len(bracket)
    rows = ""
    for radius in (share * middle for share in AT if middle > 0):
        held, seen = (int((side > radius).sum()) for side in (bracket.certified, bracket.attacked))
        (least, _), (_, most) = share_interval(held, n), share_interval(seen, n)
        rows += (
            f"<tr><td>{radius:.3g}</td><td>{held / n:.0%} (of all such points at least {least:.0%})</td>"
            f"<td>{seen / n:.0%} (at most {most:.0%})</td></tr>"
        )
    table = f"<table><tr><th>change up to</th><th>proven to hold</th><th>not broken by the attack</th></tr>{rows}</table>"
    note = f"<p class='small'>Bounds in brackets: 95 % limits for points drawn like these {n}, each side on its own.</p>"
    return curve_as_svg(bracket) + (table + note if rows else "")


def _proofs(bracket: RadiusBracket, out: Path, model: Path, data: Path, flags: str) -> str:
    file = out / "proofs.npz"
    kept = (out / "model.npz").is_file()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    count = int((bracket.certified > 0).sum())
    s = bracket.statement
    rows = [("proofs", f"{file.name}, SHA-256 {digest}")]
    if s is not None:
        rows += [
            ("weights of the model", s.model.sha256 or "only called"),
            ("points and labels", s.points_sha256),
            ("read by", s.model.reader),
        ]
    table = "".join(
        f"<tr><th>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>" for name, value in rows
    )
    if not count:
        return f"<p>No radius is proven.</p><table>{table}</table>"
    checked = "model.npz" if kept else model.name
    return (
        f"<p>{count} of {len(bracket)} points have a proof in <code>{file.name}</code>. A small program that shares nothing with the "
        f"search verifies it:</p><pre>featureprism check {file.name} {escape(checked)} {escape(data.name)} {escape(flags)}</pre>"
        f"<p class='small'>With <code>--exact</code> every step is verified in rational arithmetic.</p><table>{table}</table>"
    )
