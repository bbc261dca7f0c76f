"""The atlas of theorems: pages made from the claims, the premises and what was published last. Nothing here is written by hand."""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from featureprism.lab import SCALES, Claim, Experiment, Paper
from featureprism.report import claims as words
from featureprism.report.published import Published

Row = dict[str, Any]
PLACE = re.compile(
    r"(Theorem|Proposition|Lemma|Corollary|Claim|Assumption|Condition|Figure|Table)s? ((?:[A-Z]\.)?\d+(?:\.\d+)?)"
)
KINDS = ("holds", "fails", "undecided", "not measured", "not published")


ABOUT = """\
Every statement that we measure, in the paper's own direction, with the number that decides it. A claim *holds* or *fails* when the
95 % interval over seeds is clear of its bound, and is *undecided* otherwise; a claim about every seed is refuted by one. *Inside* and
*outside* tell whether the premises of the theorem hold in those runs. These pages are generated from the registry of claims and the
results published last (scales: {scales}).
"""


@dataclass(frozen=True)
class Entry:
    """A claim with what was published of it, by scale."""

    item: Experiment
    claim: Claim
    judged: Mapping[str, Row]

    @property
    def id(self) -> str:
        return self.item.claim_id(self.claim)

    @property
    def verdict(self) -> str:
        """That of the largest published scale."""
        return next((self.judged[s]["verdict"] for s in reversed(SCALES) if s in self.judged), KINDS[-1])

    @property
    def regime(self) -> str:
        """Inside or outside the premises, at the largest scale; nothing where no premise was measured."""
        inside = next(
            (self.judged[s]["regime"]["inside"] for s in reversed(SCALES) if s in self.judged), None
        )
        return {True: "inside", False: "outside", None: ""}[inside]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9-]+", "-", self.id.lower())


def entries_of(item: Experiment, published: Published) -> list[Entry]:
    """Every claim of an item; claims that are no longer made are left out, those that are new have no result yet."""
    found: dict[str, dict[str, Row]] = {}
    for scale in (s for s in SCALES if item.id in published.get(s, {})):
        for row in published[scale][item.id]["claims"]:
            found.setdefault(row["id"], {})[scale] = row
    return [Entry(item, claim, found.get(item.claim_id(claim), {})) for claim in item.claims]


def places_of(paper: Paper, entries: list[Entry]) -> dict[str, tuple[str, list[Entry]]]:
    """Each theorem, lemma or figure that claims speak of: a sentence for it, and its claims."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        for kind, number in dict.fromkeys(PLACE.findall(entry.claim.source)):
            found.setdefault(f"{kind} {number}", []).append(entry)
    titles = {
        f"{kind} {number}": item.title
        for item in reversed(paper.experiments)
        for kind, number in PLACE.findall(item.source)
    }

    def sentence(place: str, own: list[Entry]) -> str:
        spoken = [e for e in own if e.claim.origin == "paper"] or own
        return titles.get(place) or spoken[0].claim.says

    order = sorted(found, key=_natural)
    return {place: (sentence(place, found[place]), found[place]) for place in order}


def _natural(place: str) -> tuple[Any, ...]:
    kind, number = place.split(" ", 1)
    kinds = (
        "Assumption",
        "Condition",
        "Theorem",
        "Corollary",
        "Proposition",
        "Lemma",
        "Claim",
        "Figure",
        "Table",
    )
    return kinds.index(kind), [(not p.isdigit(), p.zfill(4)) for p in number.split(".")]


def counts(entries: Iterable[Entry]) -> dict[str, int]:
    """How many hold, fail, are undecided, at the largest scale published of each."""
    verdicts = [entry.verdict for entry in entries]
    return {kind: verdicts.count(kind) for kind in KINDS}


def index_page(papers: Mapping[str, Paper], published: Published) -> str:
    """What holds, what fails and what is undecided, paper by paper."""
    scales = ", ".join(published) or "none yet"
    rows = []
    for paper in papers.values():
        entries = [e for item in paper.experiments for e in entries_of(item, published)]
        told = _bar(counts(entries))
        rows.append(
            f"<tr><td><a href='{paper.name}.html'>{escape(paper.name)}</a><br><small>{escape(paper.citation)}</small></td>"
            f"<td>{len(paper.experiments)}</td><td>{len(entries)}</td><td>{told}</td></tr>"
        )
    table = _table(("paper", "items", "claims", "what holds, what fails, what is undecided"), rows, "papers")
    items = "\n   ".join(papers)
    told = ABOUT.format(scales=scales)
    return f"{_title('Atlas of theorems')}{told}\n{_raw(table)}\n.. toctree::\n   :hidden:\n\n   {items}\n"


def paper_page(paper: Paper, published: Published, errata: str = "") -> str:
    """One paper: its claims in a table that can be filtered, then theorem by theorem, then item by item."""
    entries = [entry for item in paper.experiments for entry in entries_of(item, published)]
    parts = [":html_theme.sidebar_secondary.remove:\n\n", _title(paper.name), f"{_text(paper.citation)}\n\n"]
    if errata:
        parts.append(f"What is printed and what is right: :doc:`{errata}`.\n\n")
    parts.append(
        _raw(
            _bar(counts(entries))
            + _filters(counts(entries))
            + claims_table(entries, published, f"{paper.name}/")
        )
    )
    places = places_of(paper, entries)
    if places:
        parts += [_title("Theorem by theorem", "-"), _raw(_places_table(paper.name, places))]
    parts.append(_title("Item by item", "-"))
    names = "\n   ".join(f"{paper.name}/{item.item}" for item in paper.experiments)
    parts.append(f".. toctree::\n   :maxdepth: 1\n\n   {names}\n")
    return "".join(parts)


def item_page(item: Experiment, published: Published, figures: Mapping[str, str], errata: str = "") -> str:
    """One figure or theorem: what it says, where it was measured, its claims, premises and code."""
    entries, runs = (
        entries_of(item, published),
        {s: published[s][item.id] for s in SCALES if item.id in published.get(s, {})},
    )
    parts = [
        _title(item.title),
        f"*{_text(item.source)}*\n\n",
        f"{_text(item.about)}\n\n" if item.about else "",
    ]
    for scale in [s for s in reversed(SCALES) if s in figures][:1]:
        parts.append(
            f".. figure:: /{figures[scale]}\n   :alt: {_text(item.title)}\n\n   Measured at the scale {scale}.\n\n"
        )
    parts += [_title("Claims", "-"), _raw(claims_table(entries, published, ""))]
    for scale, run in runs.items():
        if run["premises"]:
            parts += [_title(f"Premises, {scale}", "-"), _raw(_premises_table(run["premises"]))]
    parts += [_title("Where the numbers come from", "-"), _provenance(item, runs), _code(item)]
    if errata:
        parts.append(f"Errata of the paper: :doc:`/{errata.lstrip('/')}`.\n")
    return "".join(parts)


def claims_table(entries: list[Entry], published: Published, prefix: str) -> str:
    """Every claim with bound, reported, measured and verdict at each published scale; `prefix` leads to the items' pages."""
    scales = [scale for scale in SCALES if scale in published] or ["quick"]
    head = ("claim", "what it says", "expected", *scales)
    rows = []
    for e in entries:
        link = f"{prefix}{e.item.item}.html#{e.anchor}" if prefix else f"#{e.anchor}"
        own = "" if prefix else f" id='{e.anchor}'"
        who = "the paper" if e.claim.origin == "paper" else "featureprism"
        note = (
            f"<br><small>{escape(e.claim.note)}</small>"
            if isinstance(e.claim.note, str) and e.claim.note
            else ""
        )
        judged = "".join(f"<td data-scale='{scale}'>{_judged(e.judged.get(scale))}</td>" for scale in scales)
        rows.append(
            f"<tr{own} data-verdict='{e.verdict}' data-origin='{who}' data-regime='{e.regime}'>"
            f"<td><a href='{link}'><code>{escape(e.id)}</code></a><br><small>{escape(e.claim.source)} · {who}</small></td>"
            f"<td>{escape(e.claim.says)}{note}</td><td class='n'>{escape(words.expected(e.claim.as_row()))}</td>{judged}</tr>"
        )
    return _table(head, rows, "claims")


def _judged(row: Row | None) -> str:
    if row is None:
        return "<span class='none'>-</span>"
    kind = row["verdict"].replace(" ", "-")
    regime = {True: "inside its premises", False: "outside its premises", None: ""}[row["regime"]["inside"]]
    small = f"<br><small title='{escape(words.premises(row), quote=True)}'>{regime}</small>" if regime else ""
    return f"<span class='n'>{escape(words.measured(row))}</span><br><b class='verdict {kind}'>{escape(words.verdict(row))}</b>{small}"


def _places_table(paper: str, places: Mapping[str, tuple[str, list[Entry]]]) -> str:
    rows = []
    for place, (sentence, entries) in places.items():
        items = {e.item.item: None for e in entries}
        links = ", ".join(f"<a href='{paper}/{name}.html'>{escape(name)}</a>" for name in items)
        rows.append(
            f"<tr><td>{place}</td><td>{escape(sentence)}</td><td>{_bar(counts(entries))}</td><td>{links}</td></tr>"
        )
    return _table(("", "in one sentence", "claims", "measured in"), rows, "places")


def _premises_table(premises: list[Row]) -> str:
    rows = [
        f"<tr><td>{escape(p['name'])}<br><small>{escape(p['source'])} · <code>{escape(p['id'])}</code></small></td>"
        f"<td class='n'>{words.show(p['measured'])} {escape(p['relation'])} {words.show(p['required'])}</td>"
        f"<td class='verdict {'holds' if p['holding'] == p['runs'] else 'fails'}'>{p['holding']} of {p['runs']} runs</td></tr>"
        for p in premises
    ]
    return _table(("premise", "in the tightest run", "holds in"), rows, "premises")


def _provenance(item: Experiment, runs: Mapping[str, Row]) -> str:
    lines = [
        f"* {scale}: seeds {', '.join(map(str, run['seeds']))}; {run['seconds']:.0f} s on one core; featureprism {run['featureprism']}"
        + (f", commit {run['commit']}" if run["commit"] else "")
        for scale, run in runs.items()
    ] or ["Nothing of it has been published yet."]
    again = f".. code-block:: console\n\n   $ featureprism reproduce {item.id} --scale quick --out runs\n"
    return "\n".join(lines) + f"\n\nMeasure it again:\n\n{again}\n"


def _code(item: Experiment) -> str:
    """The function that measures it, with a link to its source."""
    function = inspect.unwrap(item.measure)
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", "")
    if not name.isidentifier():
        return ""
    anchor = _raw(f"<span id='{module}.{name}'></span>")  # where the page of the source leads back to
    return f"The code that measures it:\n\n{anchor}.. autofunction:: {module}.{name}\n   :no-index:\n\n"


def _filters(told: Mapping[str, int]) -> str:
    def choice(name: str, label: str, options: Iterable[str]) -> str:
        inner = "".join(f"<option>{o}</option>" for o in options)
        return f"<label>{label} <select data-filter='{name}'><option value=''>all</option>{inner}</select></label>"

    return (
        "<form class='atlas-filters' role='search'>"
        "<label>Search <input type='search' data-filter='text' placeholder='theorem, word, claim'></label>"
        f"{choice('verdict', 'Verdict', (kind for kind in KINDS if told[kind]))}{choice('origin', 'Origin', ('the paper', 'featureprism'))}"  # noqa: E501
        f"{choice('regime', 'Premises', ('inside', 'outside'))}<output></output></form>"
    )


def _bar(told: Mapping[str, int]) -> str:
    parts = [
        f"<b class='verdict {kind.replace(' ', '-')}'>{n} {_verb(kind, n)}</b>"
        for kind, n in told.items()
        if n
    ]
    return f"<span class='tally'>{' '.join(parts)}</span>"


def _verb(kind: str, count: int) -> str:
    return kind.removesuffix("s") if count != 1 and kind in ("holds", "fails") else kind


def _table(head: Iterable[str], rows: Iterable[str], kind: str) -> str:
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    inner = f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f"<div class='atlas-scroll'><table class='atlas {kind}'>{inner}</table></div>"


def _raw(html: str) -> str:
    return f".. raw:: html\n\n   {html}\n\n"


def _text(text: str) -> str:
    """Plain text as reStructuredText."""
    return re.sub(r"([*|\\`]|(?<=\w)_(?=\W|$))", r"\\\1", " ".join(text.split()))


def _title(text: str, line: str = "=") -> str:
    return f"{_text(text)}\n{line * (2 * len(text) + 2)}\n\n"


def write_atlas(
    papers: Mapping[str, Paper], published: Published, figures: Mapping[tuple[str, str], str], docs: Path
) -> list[Path]:
    """All pages, below docs/atlas; only what differs is written, so that a second build is quick."""
    pages = {"index": index_page(papers, published)}
    for paper in papers.values():
        errata = f"/errata_{paper.name.replace('-', '_')}"
        own = errata if (docs / f"{errata[1:]}.md").exists() else ""
        pages[paper.name] = paper_page(paper, published, own)
        for item in paper.experiments:
            drawn = {scale: figures[item.id, scale] for scale in SCALES if (item.id, scale) in figures}
            pages[item.id] = item_page(item, published, drawn, own)
    for name, text in pages.items():
        path = docs / "atlas" / f"{name}.rst"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    return [docs / "atlas" / f"{name}.rst" for name in pages]
