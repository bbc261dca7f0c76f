"""The papers, one folder each; the registry is in featureprism.lab."""

from featureprism.lab.registry import (
    all_papers as all_papers,
)  # the old path, until no module imports it from here
from featureprism.lab.registry import experiments_called as experiments_called
from featureprism.lab.registry import item_called as item_called

__all__ = ["all_papers", "experiments_called", "item_called"]
