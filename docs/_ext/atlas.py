"""The atlas of theorems: pages made from the claims, the premises and what was published last. Nothing here is written by hand."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import indent
from typing import Any

from featureprism.lab import Claim, Experiment, Paper
from featureprism.lab.experiment import SCALES
from featureprism.lab.printers import anchor, html_table, premises_html, tally_html, to_html
from featureprism.lab.published import Published, sizes_in_words
from featureprism.lab.registry import all_papers
from featureprism.lab.story import SCHEMATIC, Text, parts_of, schematic_html
from featureprism.lab.table import VERDICTS, ClaimTable, Line, counts, show

Row = dict[str, Any]
PLACE = re.compile(
    r"(Theorem|Proposition|Lemma|Corollary|Claim|Assumption|Condition|Figure|Table)s? ((?:[A-Z]\.)?\d+(?:\.\d+)?)"
)
ABOUT = """\
Every statement that we measure, in the paper's direction, with the number that decides it. A claim *holds* or *fails* when the 95 %
interval over seeds is clear of its bound, and is *undecided* otherwise; a claim about every seed is refuted by one. *Out of reach*
means that no network of that size could meet the bound. *Inside* and *outside* say whether the premises of the theorem hold in those
runs. These pages are generated from the registry of claims and the results published last (scales: {scales}).
"""


@dataclass(frozen=True)
class Entry:
    """A claim of an item."""

    item: Experiment
    claim: Claim
    line: Line


def entries_of(item: Experiment, published: Published) -> list[Entry]:
    """Every claim of an item; claims that are no longer made are left out, those that are new have no result yet."""
    claims = {item.claim_id(claim): claim for claim in item.claims}
    return [Entry(item, claims[line.id], line) for line in ClaimTable.of_published(item, published)]


def places_of(paper: Paper, entries: list[Entry]) -> dict[str, tuple[str, list[Entry]]]:
    """Each theorem, lemma or figure that claims speak of: a sentence for it, and its claims."""
    by_place: dict[str, list[Entry]] = {}
    for entry in entries:
        for kind, number in dict.fromkeys(PLACE.findall(entry.claim.source)):
            by_place.setdefault(f"{kind} {number}", []).append(entry)
    titles = {
        f"{kind} {number}": item.title
        for item in reversed(paper.experiments)
        for kind, number in PLACE.findall(item.source)
    }

    def sentence(place: str, entries: list[Entry]) -> str:
        spoken = [e for e in entries if e.claim.origin == "paper"] or entries
        return titles.get(place) or spoken[0].claim.says

    order = sorted(by_place, key=_natural)
    return {place: (sentence(place, by_place[place]), by_place[place]) for place in order}


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


def tally(entries: Iterable[Entry]) -> str:
    """How many hold, fail, are undecided, at the largest scale published of each."""
    return tally_html(counts(entry.line for entry in entries))


def index_page(papers: Mapping[str, Paper], published: Published) -> str:
    """What holds, what fails and what is undecided, paper by paper."""
    scales = ", ".join(published) or "none yet"
    rows = []
    for paper in papers.values():
        entries = [e for item in paper.experiments for e in entries_of(item, published)]
        numbers = tally(entries)
        rows.append(
            f"<tr><td><a href='{paper.name}.html'>{escape(paper.name)}</a><br><small>{escape(paper.reference)}</small></td>"
            f"<td>{len(paper.experiments)}</td><td>{len(entries)}</td><td>{numbers}</td></tr>"
        )
    table = html_table(
        ("paper", "items", "claims", "what holds, what fails, what is undecided"), rows, "papers"
    )
    items = "\n   ".join(f"{name} <{name}>" for name in papers)
    about = ABOUT.format(scales=scales)
    return f"{_title('Atlas of theorems')}{about}\n{_raw(table)}\n.. toctree::\n   :hidden:\n\n   {items}\n"


def paper_page(paper: Paper, published: Published, figures: Mapping[str, str], errata: str = "") -> str:
    """One paper: its story, its headline claims, all claims theorem by theorem, then item by item."""
    entries = [entry for item in paper.experiments for entry in entries_of(item, published)]
    items = {e.line.id: e.item.item for e in entries}
    table = ClaimTable(paper.name, tuple(e.line for e in entries), scales_of(published))

    def address(line: Line) -> str:
        return f"{paper.name}/{items[line.id]}.html#{anchor(line)}"

    parts = [":html_theme.sidebar_secondary.remove:\n\n", *_story(paper, figures)]
    headlines = table.headlines()
    parts += [
        _title("What came out", "-"),
        _raw(tally_html(counts(headlines)) + to_html(headlines, address, paper.letters)),
    ]
    if errata:
        parts.append(f"What the paper prints and what is right: :doc:`{errata}`.\n\n")
    if places := places_of(paper, entries):
        parts += [_title("Theorem by theorem", "-"), _raw(_places_table(paper.name, places))]
    parts += [
        _title("Every claim", "-"),
        _raw(_filters(counts(table)) + _folded(table, address, paper.letters)),
    ]
    parts.append(_title("Item by item", "-"))
    names = "\n   ".join(f"{paper.name}/{item.item}" for item in paper.experiments)
    parts.append(f".. toctree::\n   :maxdepth: 1\n\n   {names}\n")
    return "".join(parts)


def _folded(table: ClaimTable, address: Callable[[Line], str], letters: Mapping[str, str]) -> str:
    """All claims below a line that opens them; a filter opens them too."""
    cards = to_html(table, address, letters)
    return f"<details class='item'><summary>All {len(table)} claims</summary>{cards}</details>"


def _letters_of(item: Experiment) -> dict[str, str]:
    """The letters of the paper of an item; none for a paper that is not registered."""
    paper = all_papers().get(item.paper)
    return paper.letters if paper else {}


def _story(paper: Paper, figures: Mapping[str, str]) -> list[str]:
    """The story with the published figures; without one the citation."""
    if paper.story is None:
        return [_title(paper.name), f"{_text(paper.reference)}\n\n"]
    title, _, text = paper.story.read_text("utf-8").partition("\n")
    known = {item.id for item in paper.experiments}
    parts = [_title(title.removeprefix("# "))]
    for part in parts_of(text, lambda id: f"{id}.html" if id in known else None):
        if isinstance(part, Text):
            parts.append(_raw(f"<div class='story'>{part.html}</div>"))
        elif part.item == SCHEMATIC:
            parts.append(_raw(f"<div class='story'>{schematic_html(paper.story, part)}</div>"))
        elif part.item in figures:
            parts.append(f".. figure:: /{figures[part.item]}\n   :alt: {part.item}\n\n")
            parts.append(
                _raw(
                    f"<p class='caption'>{part.caption} (<a href='{paper.name}/{part.item}.html'>{part.item}</a>)</p>"
                )
            )
    return parts


def item_page(item: Experiment, published: Published, figures: Mapping[str, str], errata: str = "") -> str:
    """One figure or theorem: what it says, where it was measured, its claims, premises and code."""
    runs = {s: published[s][item.id] for s in SCALES if item.id in published.get(s, {})}
    parts = [
        _title(item.title),
        f"*{_text(item.source)}*\n\n",
        f"{_text(item.about)}\n\n" if item.about else "",
    ]
    if scale := scale_to_draw(runs, figures):
        parts.append(
            f".. figure:: /{figures[scale]}\n   :alt: {_text(item.title)}\n\n   Measured at the scale {scale}.\n\n"
        )
    table = ClaimTable.of_published(item, published)
    parts += [_title("Claims", "-"), _raw(to_html(table, letters=_letters_of(item)))]
    for scale, run in runs.items():
        if run["premises"]:
            parts += [_title(f"Premises, {scale}", "-"), _raw(premises_html(run["premises"], show))]
    parts += [_title("Where the numbers come from", "-"), _provenance(item, runs), _code(item)]
    if errata:
        parts.append(f"Errata of the paper: :doc:`/{errata.lstrip('/')}`.\n")
    return "".join(parts)


def scale_to_draw(runs: Mapping[str, Row], figures: Mapping[str, str]) -> str | None:
    """The largest scale with a figure, of those that were published as the item is now; else the largest of all."""
    drawn = [scale for scale in reversed(SCALES) if scale in figures]
    current = [scale for scale in drawn if runs.get(scale, {}).get("is_current")]
    return next(iter(current or drawn), None)


def scales_of(published: Published) -> tuple[str, ...]:
    """The scales of which anything is published."""
    return tuple(scale for scale in SCALES if scale in published) or SCALES[:1]


def _places_table(paper: str, places: Mapping[str, tuple[str, list[Entry]]]) -> str:
    rows = []
    for place, (sentence, entries) in places.items():
        items = {e.item.item: None for e in entries}
        links = ", ".join(f"<a href='{paper}/{name}.html'>{escape(name)}</a>" for name in items)
        rows.append(
            f"<tr><td>{place}</td><td>{escape(sentence)}</td><td>{tally(entries)}</td><td>{links}</td></tr>"
        )
    return html_table(("", "in one sentence", "claims", "measured in"), rows, "places")


def _provenance(item: Experiment, runs: Mapping[str, Row]) -> str:
    lines = [
        f"* {scale}: seeds {', '.join(map(str, run['seeds']))}; {run['seconds']:.0f} s on one core; featureprism {run['featureprism']}"
        + (f", commit {run['commit']}" if run["commit"] else "")
        + (
            ""
            if run.get("is_current", True)
            else "; published before the present form of this item, to be measured again"
        )
        for scale, run in runs.items()
    ] or ["Nothing of it has been published yet."]
    if sizes := sizes_in_words({scale: run.get("sizes", {}) for scale, run in runs.items()}):
        lines.append(f"* From {' to '.join(runs)}: {_text(sizes)}.")
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


def _filters(numbers: Mapping[str, int]) -> str:
    def choice(name: str, label: str, options: Iterable[str]) -> str:
        inner = "".join(f"<option>{o}</option>" for o in options)
        return f"<label>{label} <select data-filter='{name}'><option value=''>all</option>{inner}</select></label>"

    return (
        "<form class='filters' role='search'>"
        "<label>Search <input type='search' data-filter='text' placeholder='theorem, word, claim'></label>"
        f"{choice('verdict', 'Verdict', (kind for kind in VERDICTS if numbers[kind]))}{choice('origin', 'Origin', ('the paper', 'featureprism'))}"  # noqa: E501
        f"{choice('headline', 'Claims', ('headline',))}{choice('regime', 'Premises', ('inside', 'outside'))}<output></output></form>"
    )


def _raw(html: str) -> str:
    """HTML as it is; every line is indented, so that none leaves the block."""
    return f".. raw:: html\n\n{indent(html, '   ')}\n\n"


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
        page = errata if (docs / f"{errata[1:]}.md").exists() else ""
        drawn = {
            item.item: {scale: figures[item.id, scale] for scale in SCALES if (item.id, scale) in figures}
            for item in paper.experiments
        }
        shown = {}
        for item in paper.experiments:
            runs = {s: published[s][item.id] for s in SCALES if item.id in published.get(s, {})}
            if scale := scale_to_draw(runs, drawn[item.item]):
                shown[item.item] = drawn[item.item][scale]
        pages[paper.name] = paper_page(paper, published, shown, page)
        for item in paper.experiments:
            pages[item.id] = item_page(item, published, drawn[item.item], page)
    for name, text in pages.items():
        path = docs / "atlas" / f"{name}.rst"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    return [docs / "atlas" / f"{name}.rst" for name in pages]
