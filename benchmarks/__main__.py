"""Timings as ratios within one run: `make bench`; `python -m benchmarks radius` runs one part.

`python -m benchmarks --publish` adds the ratios to history.jsonl, `python -m benchmarks history` prints how they went.
"""

import sys
from itertools import chain

from benchmarks import (
    descent,
    first_layer,
    flow,
    heads,
    history,
    images,
    max_margin,
    purification,
    radius,
    sweep,
    tightness,
)
from benchmarks.timing import Ratio

PARTS = {
    "descent": descent,
    "first-layer": first_layer,
    "flow": flow,
    "heads": heads,
    "images": images,
    "max-margin": max_margin,
    "purification": purification,
    "radius": radius,
    "sweep": sweep,
    "tightness": tightness,
}

if __name__ == "__main__":
    asked = [name for name in sys.argv[1:] if name != "--publish"]
    if asked == ["history"]:
        print("\n".join(history.table()))
        sys.exit()
    ratios = []
    for line in chain.from_iterable(PARTS[name].ratios() for name in asked or PARTS):
        print(line, flush=True)
        ratios += [line] if isinstance(line, Ratio) else []
    if "--publish" in sys.argv:
        history.publish(ratios)
