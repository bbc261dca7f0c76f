"""What items cost: `python -m benchmarks.costs results/quick` takes it from a folder of results, `make results` does so for each run.

Into costs.json, for `featureprism reproduce --estimate`, and as a line of history.jsonl: processor time of one seed of every item in
steps (a fixed piece of work, timed at that moment), so that machines compare and a slow-down shows.
"""

import sys
from pathlib import Path

from benchmarks import history
from benchmarks.timing import Ratio
from featureprism.sweep.costs import KNOWN, publish_costs


def publish(folder: Path, file: Path = history.FILE) -> int:
    """Costs of a folder of results into costs.json and the history; returns how many."""
    steps = publish_costs(folder)
    if steps:
        history.publish([Ratio(name, name, value) for name, value in steps.items()], file)
    return len(steps)


if __name__ == "__main__":
    print(f"{publish(Path(sys.argv[1]))} items are in {KNOWN.name} and {history.FILE.name}")
