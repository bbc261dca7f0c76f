"""Timings as ratios within one run: `make bench`; `python -m benchmarks radius` runs one part."""

import sys
from itertools import chain

from benchmarks import descent, first_layer, flow, heads, images, max_margin, purification, radius, sweep

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
}

if __name__ == "__main__":
    for line in chain.from_iterable(PARTS[name].ratios() for name in sys.argv[1:] or PARTS):
        print(line, flush=True)
