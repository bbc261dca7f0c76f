"""Every paper there is: ours, and those of installed packages that name one in the entry-point group `featureprism.papers`."""

import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points

from featureprism.lab import Experiment, Paper
from featureprism.suggest import did_you_mean

GROUP = "featureprism.papers"
OURS = (
    "gmm_flow",
    "feature_averaging",
    "feature_purification",
    "feature_amplification",
    "double_edged",
    "beyond",
)


@lru_cache(maxsize=1)
def all_papers() -> dict[str, Paper]:
    """By name: ours first, then those from outside; one that cannot be loaded is told of and left out."""
    ours = [import_module(f"featureprism.papers.{name}").PAPER for name in OURS]
    papers = {paper.name: paper for paper in ours}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            paper = entry.load()
            if not isinstance(paper, Paper):
                raise TypeError(f"{entry.value} is a {type(paper).__name__}, not a featureprism.lab.Paper")
            if paper.name in papers:
                raise ValueError(f"there is a paper called '{paper.name}' already")
        except Exception as error:  # whatever someone else's package raises
            print(f"The paper '{entry.name}' is left out: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            papers[paper.name] = paper
    return papers


def experiments_called(name: str) -> list[Experiment]:
    """The experiments of "all", PAPER or PAPER/ITEM."""
    papers = all_papers()
    everything = [e for paper in papers.values() for e in paper.experiments]
    chosen = [e for e in everything if name in ("all", e.paper, e.id)]
    if not chosen:
        known = ["all", *papers, *(e.id for e in everything)]
        raise ValueError(
            f"Nothing is called '{name}'. {did_you_mean(name, known)} 'featureprism list' shows all."
        )
    return chosen


def item_called(name: str) -> Experiment:
    """One experiment by its id."""
    everything = {e.id: e for paper in all_papers().values() for e in paper.experiments}
    if name not in everything:
        raise ValueError(f"No item is called '{name}'. {did_you_mean(name, everything)}")
    return everything[name]
