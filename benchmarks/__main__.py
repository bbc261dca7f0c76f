"""Timings as ratios within one run: `make bench`; `python -m benchmarks radius` runs one part.

`python -m benchmarks tightness --points 8` says of how many points, `--docs` writes its table into the docs.
At the end stands the table of all ratios beside those of published runs (history.jsonl); `--publish` adds this run to them, and
`python -m benchmarks history` prints the table without running anything.
"""

import sys
from argparse import ArgumentParser
from functools import partial
from itertools import chain

from benchmarks import (
    attacks,
    descent,
    first_layer,
    flow,
    heads,
    history,
    images,
    max_margin,
    proofs,
    purification,
    radius,
    sweep,
    tightness,
)
from benchmarks.timing import Ratio

PARTS = {
    "attacks": attacks,
    "descent": descent,
    "first-layer": first_layer,
    "flow": flow,
    "heads": heads,
    "images": images,
    "max-margin": max_margin,
    "proofs": proofs,
    "purification": purification,
    "radius": radius,
    "sweep": sweep,
    "tightness": tightness,
}

if __name__ == "__main__":
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "history", []], help="default: all")
    parser.add_argument("--points", type=int, default=8, help="of each network of the part tightness")
    parser.add_argument(
        "--docs", action="store_true", help="write the table of tightness into docs/tightness.md"
    )
    parser.add_argument("--publish", action="store_true", help="add the ratios to history.jsonl")
    asked = parser.parse_args()
    if asked.parts == ["history"]:
        print("\n".join(history.table()))
        sys.exit()
    calls = {name: part.ratios for name, part in PARTS.items()}
    calls["tightness"] = partial(tightness.ratios, asked.points, docs=asked.docs)
    ratios = []
    for line in chain.from_iterable(calls[name]() for name in asked.parts or PARTS):
        print(line, flush=True)
        ratios += [line] if isinstance(line, Ratio) else []
    print("\n".join(["", *history.table(ratios)]))
    if asked.publish:
        history.publish(ratios)
