"""Timings as ratios within one run: `make bench`."""

from benchmarks import descent, flow

if __name__ == "__main__":
    for line in [*descent.ratios(), *flow.ratios()]:
        print(line, flush=True)
