"""Results as a project keeps them: one compact JSON file for each scale, one small figure for each item; the atlas is made of them.

Sizes and bounds are chosen on seeds below 1000, and results are published on seeds at which nobody has looked: blocks of five from 2000
on. ledger.json notes for each item and scale which seeds were used under which hashes of settings, measure and claims (values,
aggregates, bounds), but not of their words. An item in which one of these changed takes the next block; seeds that it has used under
other hashes are refused. The hashes follow definitions of the item's own paper; library functions count by name (see `lab.sources`), so
that a new release of the library leaves verdicts as they are.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from featureprism._files import as_json, prepare_folder, write_whole
from featureprism.lab.experiment import SCALES, Experiment
from featureprism.lab.intervals import LEVEL
from featureprism.lab.registry import all_papers
from featureprism.lab.reproduction import hashes
from featureprism.lab.rows import Row

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
CLAIM_TOO = ("seeds_to_decide", "reason", "ceiling", "level", "regime", "note")
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
LEDGER = "ledger.json"
FIRST, BLOCK = 2000, 5  # seeds that are published
SIZES = 6  # that are named
WIDEST = 1200  # pixels of a figure
Published = dict[str, dict[str, Row]]  # by scale and id of the item


def publish(items: list[tuple[Row, list[Row]]], runs: Path, folder: Path) -> list[Path]:
    """Put judged items into folder/SCALE.json, one line a claim, beside what is there of other items; their figures go along.

    Items on seeds that are not fresh are refused before anything is written.
    """
    ledger = Ledger(folder)
    for about, _ in items:
        ledger.check(about)
    prepare_folder(folder / "figures")
    known = _stored(folder)
    for about, claims in items:
        kept = {key: about[key] for key in ITEM} | {"sizes": sizes_of(about.get("settings", []))}
        kept["claims"] = [_kept(claim) for claim in claims]
        known.setdefault(about["scale"], {})[about["id"]] = kept
        ledger.note(about)
        _keep_figure(runs / about["id"] / "figure.png", figure_path(folder, about["id"], about["scale"]))
    written = sorted({about["scale"] for about, _ in items}, key=SCALES.index)
    for scale in written:
        write_whole(folder / f"{scale}.json", _as_text(known[scale]))
    ledger.write()
    return [folder / f"{scale}.json" for scale in written]


class Ledger:
    """Which seeds every item has used at every scale, and under which hashes.

    An entry is {"item", "scale", "seeds", "measure", "claims"}. Results that were published before there was a ledger count as used
    under unknown hashes.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER
        self.entries: list[Row] = json.loads(self.path.read_text("utf-8")) if self.path.is_file() else []
        noted = {(entry["item"], entry["scale"]) for entry in self.entries}
        for scale in SCALES:
            path = folder / f"{scale}.json"
            for item in json.loads(path.read_text("utf-8")) if path.is_file() else []:
                if (item["id"], scale) not in noted:
                    seeds = {"item": item["id"], "scale": scale, "seeds": item["seeds"]}
                    self.entries.append(seeds | {"measure": "", "claims": {}})

    def of(self, item: str, scale: str) -> list[Row]:
        """The entries of an item at a scale."""
        return [entry for entry in self.entries if (entry["item"], entry["scale"]) == (item, scale)]

    def published(self, item: str, scale: str, now: Row) -> Row | None:
        """The entry under which an unchanged item was published; claims may have been dropped since."""
        return next((entry for entry in self.of(item, scale) if _is_covered(now, entry)), None)

    def fresh_seeds(self, item: str, scale: str, num: int = BLOCK) -> tuple[int, ...]:
        """The next seeds that the item has not used, from the beginning of a block."""
        used = [seed for entry in self.of(item, scale) for seed in entry["seeds"] if seed >= FIRST]
        first = FIRST if not used else FIRST + BLOCK * ((max(used) - FIRST) // BLOCK + 1)
        return tuple(range(first, first + num))

    def check(self, about: Row) -> None:
        """Refuse what may not be published."""
        item, scale, seeds = about["id"], about["scale"], about["seeds"]
        if about.get("set"):
            raise ValueError(
                f"{item} was run with other settings ({about['set']}); only the settings of a scale are published."
            )
        if min(seeds) < FIRST:
            raise ValueError(
                f"{item} was run on seeds from {min(seeds)} on; results are published on seeds from {FIRST} on: "
                "'featureprism reproduce ... --fresh FOLDER' chooses them."
            )
        for entry in self.of(item, scale):
            if set(seeds) & set(entry["seeds"]) and not _is_covered(about["hashes"], entry):
                raise ValueError(
                    f"{item} at {scale} was published on seed {min(set(seeds) & set(entry['seeds']))} with other settings, another "
                    f"measure or other claims; run it on seeds from {self.fresh_seeds(item, scale)[0]} on."
                )

    def note(self, about: Row) -> None:
        """Add what is published now."""
        entry = {"item": about["id"], "scale": about["scale"], "seeds": about["seeds"], **about["hashes"]}
        if entry not in self.entries:
            self.entries.append(entry)

    def write(self) -> None:
        """Keep the ledger, a line for each entry, sorted so that publications of two papers can be merged."""
        fresh = [entry for entry in self.entries if max(entry["seeds"]) >= FIRST]
        order = sorted(fresh, key=lambda entry: (entry["item"], SCALES.index(entry["scale"])))
        lines = ",\n".join(as_json(entry) for entry in order)
        write_whole(self.path, f"[\n{lines}\n]\n")


def _is_covered(now: Row, entry: Row) -> bool:
    """Whether everything that is measured and claimed now was so when the entry was made."""
    return now["measure"] == entry["measure"] and now["claims"].items() <= entry["claims"].items()


def fresh_seeds(experiments: Sequence[Experiment], scale: str, folder: Path) -> dict[str, tuple[int, ...]]:
    """Seeds at which nobody has looked, for every item that is not published in a folder as it is now."""
    ledger = Ledger(folder)
    changed = [e for e in experiments if not ledger.published(e.id, scale, hashes(e, scale))]
    return {e.id: ledger.fresh_seeds(e.id, scale) for e in changed}


def read_published(folder: Path) -> Published:
    """What was published at each scale, without claims that have changed since; scales that were not are left out.

    `is_current` says of an item whether everything that it measures and claims now is as it was then.
    """
    known = {e.id: e for paper in all_papers().values() for e in paper.experiments}
    ledger = Ledger(folder)
    return {
        scale: {item["id"]: _as_it_is_now(item, known.get(item["id"]), ledger) for item in items.values()}
        for scale, items in _stored(folder).items()
    }


def _stored(folder: Path) -> Published:
    """The files of a folder."""
    paths = {scale: folder / f"{scale}.json" for scale in SCALES}
    return {
        scale: {item["id"]: item for item in json.loads(path.read_text("utf-8"))}
        for scale, path in paths.items()
        if path.is_file()
    }


def _as_it_is_now(item: Row, experiment: Experiment | None, ledger: Ledger) -> Row:
    """An item with those of its claims that are still made with the same bound and aggregate; of unknown items all of them."""
    if experiment is None:
        return item
    made = {experiment.claim_id(claim): claim.as_row() for claim in experiment.claims}
    kept = [
        row
        for row in item["claims"]
        if row["id"] in made
        and all(as_json(row[key]) == as_json(made[row["id"]][key]) for key in SAME if key in row)
    ]
    scale = item["scale"]
    is_current = (
        scale in experiment.scales
        and ledger.published(item["id"], scale, hashes(experiment, scale)) is not None
    )
    return item | {"claims": kept, "is_current": is_current}


def figure_path(folder: Path, item: str, scale: str) -> Path:
    """Where the figure of an item is kept."""
    return folder / "figures" / f"{item.replace('/', '--')}--{scale}.webp"


def _kept(claim: Row) -> Row:
    """What the registry of claims does not know."""
    kept = {key: claim[key] for key in CLAIM} | {key: claim[key] for key in CLAIM_TOO if claim.get(key)}
    return {key: value for key, value in kept.items() if (key, value) != ("level", LEVEL)}


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


def sizes_of(settings: list[Row]) -> Row:
    """Every number of an item's settings as [least, largest], and how many settings there are."""
    numbers: dict[str, list[Any]] = {}
    for setting in settings:
        for name, value in setting.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers.setdefault(name, []).append(value)
    return {"settings": [len(settings)] * 2} | {name: [min(v), max(v)] for name, v in numbers.items()}


def sizes_in_words(by_scale: Mapping[str, Row]) -> str:
    """What differs between the settings of two or more scales: dim 400 → 1000 → 2000; nothing where some did not keep them."""
    if len(by_scale) < 2 or not all(by_scale.values()):
        return ""
    parts = []
    for name in dict.fromkeys(name for sizes in by_scale.values() for name in sizes):
        values = [_range(sizes.get(name)) for sizes in by_scale.values()]
        if len(set(values)) > 1:
            parts.append(f"{name} {' → '.join(values)}")
    return "; ".join(parts[:SIZES])


def _range(ends: list[float] | None) -> str:
    if ends is None:
        return "-"
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"
