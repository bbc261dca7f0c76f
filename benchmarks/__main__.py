"""Timings as ratios within one run: `make bench`; `python -m benchmarks radius` runs one part.

`python -m benchmarks outside` runs networks of others, `--docs` writes its tables into docs/bars.md; it takes an hour, and is only run
where it is named.
At the end stands the table of all ratios beside those of published runs (history.jsonl); `--publish` adds this run to them, and
`python -m benchmarks history` prints the table without running anything.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from importlib import import_module
from itertools import chain

from benchmarks import history, outside
from benchmarks.timing import Ratio

PARTS = (
    "attacks",
    "descent",
    "first-layer",
    "flow",
    "heads",
    "images",
    "max-margin",
    "proofs",
    "purification",
    "radius",
    "sweep",
)


def lines_of(part: str, docs: bool) -> Iterable:
    """What a part prints; it is imported when it is run."""
    if part == "outside":
        return outside.lines(docs=docs)
    return import_module(f"benchmarks.{part.replace('-', '_')}").ratios()


if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "outside", "history", []], help="default: all")
    parser.add_argument(
        "--docs", action="store_true", help="write the tables of the part outside into docs/bars.md"
    )
    parser.add_argument("--publish", action="store_true", help="add the ratios to history.jsonl")
    asked = parser.parse_args()
    if asked.parts == ["history"]:
        print("\n".join(history.table()))
        sys.exit()
    ratios = []
    for line in chain.from_iterable(lines_of(name, asked.docs) for name in asked.parts or PARTS):
        print(line, flush=True)
        ratios += [line] if isinstance(line, Ratio) else []
    print("\n".join(["", *history.table(ratios)]))
    if asked.publish:
        history.publish(ratios)
