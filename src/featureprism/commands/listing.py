"""list, show and claims: what there is, without running anything."""

import argparse
import inspect
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from featureprism._files import as_json
from featureprism.lab.bounds import Bound
from featureprism.lab.costs import published_costs
from featureprism.lab.experiment import SCALES, Experiment, Paper, fields_of
from featureprism.lab.letters import used_letters, words_of
from featureprism.lab.registry import all_papers, experiments_called, item_called, paper_called
from featureprism.lab.rows import Row

NARROWEST, WIDEST = 40, 120  # columns
WIDE = 100  # columns from which a title stands beside its numbers
SHOWN = 8  # settings of a scale


def list_experiments(args: argparse.Namespace) -> int:
    """Print the papers, or the items of one and what a seed of each costs."""
    costs = {scale: published_costs(scale) for scale in SCALES}
    if args.json:
        print(as_json([_row(e, costs) for e in experiments_called(args.name or "all")], indent=1))
    elif args.name:
        print("\n".join(_items([_row(e, costs) for e in experiments_called(args.name)])))
    else:
        print("\n".join(_papers()))
    return 0


def _row(e: Experiment, costs: Mapping[str, Mapping[str, Sequence[float]]]) -> Row:
    return {
        "id": e.id,
        "title": e.title,
        "source": e.source,
        "scales": list(e.scales),
        "slow": e.slow,
        "claims": len(e.claims),
        "seconds": {scale: costs[scale][e.id][0] for scale in SCALES if e.id in costs[scale]},
    }


def _papers() -> list[str]:
    """Each paper: its name, how much there is of it, and the question that its story asks."""
    lines = []
    for paper in all_papers().values():
        claims = sum(len(e.claims) for e in paper.experiments)
        lines.append(f"{paper.name}  ({len(paper.experiments)} items, {claims} claims)")
        lines += _wrapped(_question(paper), "  ")
    return [
        *lines,
        "",
        "featureprism list PAPER       its items and their cost (list all: every item)",
        "featureprism show PAPER       what it claims, and where to read on",
        "featureprism reproduce PAPER  measures it",
    ]


def _question(paper: Paper) -> str:
    """The title of the story; a paper without a story has its citation."""
    story = _story(paper)
    return story.read_text("utf-8").partition("\n")[0].lstrip("# ") if story else paper.citation


def _items(rows: Sequence[Row]) -> list[str]:
    """What a seed of each item costs at each scale, and its title: beside it in a wide terminal, else below."""
    first = max(len(row["id"]) for row in rows)
    before = first + len("  ".join(SCALES)) + 4
    lines = [f"{'seconds of one core for a seed:':<{first}}  {'  '.join(SCALES)}"]
    for row in rows:
        cells = "  ".join(f"{_seconds(row['seconds'].get(s)):>{len(s)}}" for s in SCALES)
        numbers = f"{row['id']:<{first}}  {cells}"
        if _width() < WIDE:
            lines += [numbers, *_wrapped(row["title"], "  ")]
        else:
            title = textwrap.wrap(row["title"], _width() - before)
            lines += [f"{numbers}  {title[0]}", *(" " * before + part for part in title[1:])]
    return lines


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def show(args: argparse.Namespace) -> int:
    """Print what a paper or an item measures, its settings and claims, and where its code is."""
    papers = all_papers()
    if args.name in papers:
        lines = _paper(papers[args.name])
    else:
        experiments = experiments_called(args.name)
        lines = [line for experiment in experiments for line in _item(experiment)]
    print("\n".join(lines))
    return 0


def _paper(paper: Paper) -> list[str]:
    headlines = [(e, claim) for e in paper.experiments for claim in e.claims if claim.headline]
    lines = [paper.name, *_wrapped(paper.citation), ""]
    if story := _story(paper):
        lines += [f"Read first: {story}", ""]
    if headlines:
        lines.append("What its abstract claims:")
        for e, claim in headlines:
            lines += _wrapped(f"{e.claim_id(claim)}: {claim.says}", "  ")
        lines.append("")
    width = max((len(e.item) for e in paper.experiments), default=0)
    for e in paper.experiments:
        text = f"{e.item:<{width}}  {len(e.claims):>2} claims  {e.title}"
        lines += textwrap.wrap(text, _width(), subsequent_indent=" " * (width + 13))
    return [*lines, "", f"featureprism show {paper.name}/ITEM prints one of them."]


def _story(paper: Paper) -> Path | None:
    """The page for people, where the paper has one."""
    for experiment in paper.experiments:
        path = Path(inspect.getfile(inspect.unwrap(experiment.measure))).with_name("story.md")
        if path.is_file():
            return path
    return None


def _item(experiment: Experiment) -> list[str]:
    lines = [f"{experiment.id}: {experiment.title}", f"{experiment.source}", ""]
    if experiment.about:
        lines += [*_wrapped(experiment.about), ""]
    measure = inspect.unwrap(experiment.measure)
    lines += _code(measure)
    for scale, settings in experiment.scales.items():
        lines += ["", f"Settings at {scale}:", *_settings(settings)]
    lines += ["", "Claims:"]
    for claim in experiment.claims:
        lines.append(f"  {experiment.claim_id(claim)}  {claim.bound}")
        texts = (claim.says, claim.quantity, claim.because and f"bound: {claim.because}", claim.source)
        lines += [line for text in texts if text for line in _wrapped(text, "    ")]
    return lines + _letters(experiment)


def _letters(experiment: Experiment) -> list[str]:
    """What the letters in the claims of an item mean."""
    texts = [text for claim in experiment.claims for text in words_of(claim.as_row())]
    used = used_letters(texts, paper_called(experiment.paper).letters)
    meanings = {name: meaning.replace("`", "") for name, meaning in used.items()}
    lines = [line for name, meaning in meanings.items() for line in _wrapped(f"{name}: {meaning}", "  ")]
    return ["", "Letters:", *lines] if lines else []


def _code(measure: object) -> list[str]:
    """Where the measure is, and what its docstring says."""
    function = getattr(measure, "func", measure)
    try:
        path, (_, line) = inspect.getsourcefile(function), inspect.getsourcelines(function)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return ["The code that measures it was not written in a file."]
    text = inspect.getdoc(function) or ""
    return [*_wrapped(f"Measured by {path}:{line}"), *(_wrapped(text.split("\n\n")[0], "  ") if text else [])]


def _settings(settings: Sequence[object]) -> list[str]:
    """What all settings have in common, then what differs."""
    rows = [fields_of(setting) for setting in settings]
    common = {k: v for k, v in rows[0].items() if all(row.get(k, row) == v for row in rows)} if rows else {}
    lines = _wrapped(", ".join(f"{k}={v}" for k, v in common.items()), "  ") if common else []
    if len(rows) > 1:
        for row in rows[:SHOWN]:
            differing = ", ".join(f"{k}={v}" for k, v in row.items() if k not in common)
            lines += _wrapped(f"- {differing}", "    ")
        if len(rows) > SHOWN:
            lines.append(f"    and {len(rows) - SHOWN} more")
    return lines


def _width() -> int:
    """Columns of the terminal, or of COLUMNS; 80 where there is neither."""
    return max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST))


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(" ".join(text.split()), _width(), initial_indent=indent, subsequent_indent=indent)


def list_claims(args: argparse.Namespace) -> int:
    """Print what is claimed."""
    rows: list[Row] = [
        {"id": e.claim_id(claim), "item": e.id, **claim.as_row()}
        for e in experiments_called(args.name)
        for claim in e.claims
    ]
    if args.json:
        print(as_json(rows, indent=1))
        return 0
    for item in dict.fromkeys(row["item"] for row in rows):
        print(f"\n{item}")
        for row in (r for r in rows if r["item"] == item):
            origin = row["source"] if row["origin"] == "paper" else f"featureprism; {row['source']}"
            print(f"  {row['id']}  {Bound.of(row['relation'], row['bound'])}")
            print("\n".join(_wrapped(f"{row['says']} ({origin})", "    ")))
        print("\n".join(_letters(item_called(item))))
    return 0
