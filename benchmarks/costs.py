"""What items cost, for `featureprism reproduce --estimate`: `python -m benchmarks.costs results` takes it from published results."""

import sys
from pathlib import Path

from featureprism.sweep.costs import KNOWN, publish_costs

if __name__ == "__main__":
    print(f"{publish_costs(Path(sys.argv[1]))} items are in {KNOWN.name}")
