"""Results as a project keeps them: one compact JSON file for each scale, one small figure for each item; the atlas is made of them."""

import json
from pathlib import Path
from typing import Any

from featureprism.files import as_json, prepare_folder, write_whole
from featureprism.lab import SCALES, Experiment
from featureprism.papers import all_papers
from featureprism.records import Row
from featureprism.report.changes import sizes_of

CLAIM = (
    "id",
    "verdict",
    "measured",
    "interval",
    "values",
    "relation",
    "bound",
    "aggregate",
    "reported",
    "slack",
    "loose",
)
SAME = (
    "relation",
    "bound",
    "aggregate",
)  # what makes a claim the same as when it was published; its words may change
CLAIM_TOO = ("seeds_to_decide", "regime", "note")
EMPTY: Row = {"seeds_to_decide": None, "note": ""}
ITEM = (
    "id",
    "scale",
    "seeds",
    "seconds",
    "memory_mb",
    "featureprism",
    "commit",
    "versions",
    "premises",
    "attack",
)
WIDEST = 1200  # pixels of a figure
Published = dict[str, dict[str, Row]]  # by scale and id of the item


def publish(items: list[tuple[Row, list[Row]]], runs: Path, folder: Path) -> list[Path]:
    """Put judged items into folder/SCALE.json, one line a claim, beside what is there of other items; their figures go along."""
    prepare_folder(folder / "figures")
    known = read_published(folder)
    for about, claims in items:
        kept = {key: about[key] for key in ITEM} | {"sizes": sizes_of(about.get("settings", []))}
        kept["claims"] = [_kept(claim) for claim in claims]
        known.setdefault(about["scale"], {})[about["id"]] = kept
        _keep_figure(runs / about["id"] / "figure.png", figure_path(folder, about["id"], about["scale"]))
    written = sorted({about["scale"] for about, _ in items}, key=SCALES.index)
    for scale in written:
        write_whole(folder / f"{scale}.json", _as_text(known[scale]))
    return [folder / f"{scale}.json" for scale in written]


def read_published(folder: Path) -> Published:
    """What was published at each scale, without claims that have changed since; scales that were not are left out."""
    paths = {scale: folder / f"{scale}.json" for scale in SCALES}
    found = {scale: json.loads(path.read_text("utf-8")) for scale, path in paths.items() if path.is_file()}
    known = {e.id: e for paper in all_papers().values() for e in paper.experiments}
    return {
        scale: {item["id"]: _still_claimed(item, known.get(item["id"])) for item in items}
        for scale, items in found.items()
    }


def _still_claimed(item: Row, experiment: Experiment | None) -> Row:
    """An item with those of its claims that still say the same against the same bound; of unknown items all of them."""
    if experiment is None:
        return item
    said = {experiment.claim_id(claim): claim.as_row() for claim in experiment.claims}
    kept = [
        row
        for row in item["claims"]
        if row["id"] in said
        and all(as_json(row[key]) == as_json(said[row["id"]][key]) for key in SAME if key in row)
    ]
    return item | {"claims": kept}


def in_words(items: dict[str, Row]) -> list[tuple[Row, list[Row]]]:
    """Published items as a run has them, with the words of the registry; items that are no longer there are left out."""
    told = []
    for id in sorted(items):
        paper = all_papers().get(id.partition("/")[0])
        found = [e for e in paper.experiments if e.id == id] if paper else []
        for item in found:
            words = {item.claim_id(claim): claim.as_row() for claim in item.claims}
            kept = [words[row["id"]] | EMPTY | row for row in items[id]["claims"] if row["id"] in words]
            told.append(({**items[id], "title": item.title, "source": item.source}, kept))
    return told


def figure_path(folder: Path, item: str, scale: str) -> Path:
    """Where the figure of an item is kept."""
    return folder / "figures" / f"{item.replace('/', '--')}--{scale}.webp"


def _kept(claim: Row) -> Row:
    """What the registry of claims does not know."""
    return {key: claim[key] for key in CLAIM} | {key: claim[key] for key in CLAIM_TOO if claim[key]}


def _as_text(items: dict[str, Row]) -> str:
    """JSON with a line for each claim and premise, so that a change of one is a change of one line."""
    return "[\n" + ",\n".join(_item(items[id]) for id in sorted(items)) + "\n]\n"


def _item(item: Row) -> str:
    def lines(name: str) -> str:
        rows: list[Any] = item[name]
        return f'"{name}": [' + ",\n  ".join(["", *(as_json(row) for row in rows)])[1:] + "]"

    head = as_json({key: value for key, value in item.items() if key not in ("claims", "premises")})
    return f"{head[:-1]},\n {lines('premises')},\n {lines('claims')}}}"


def _keep_figure(source: Path, target: Path) -> None:
    """A figure small enough to be kept with the sources; an item without one keeps none."""
    target.unlink(missing_ok=True)
    if not source.is_file():
        return
    from PIL import Image  # matplotlib brings it

    with Image.open(source) as image:
        image.thumbnail((WIDEST, 10 * WIDEST))
        image.convert("RGB").save(target, quality=80, method=6)
