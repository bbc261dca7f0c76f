"""Every paper there is: those of the entry-point group `featureprism.papers`, in this distribution or another.

The papers of this distribution are also known by name, so that a source tree works before it is installed again.
"""

import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from featureprism._suggest import did_you_mean
from featureprism.lab.experiment import Experiment, Paper

GROUP = "featureprism.papers"
BUILT_IN = {  # as in pyproject.toml, in reading order
    "gmm-flow": "featureprism.papers.gmm_flow:PAPER",
    "feature-averaging": "featureprism.papers.feature_averaging:PAPER",
    "feature-purification": "featureprism.papers.feature_purification:PAPER",
    "feature-amplification": "featureprism.papers.feature_amplification:PAPER",
    "double-edged": "featureprism.papers.double_edged:PAPER",
    "beyond": "featureprism.papers.beyond:PAPER",
}


@lru_cache(maxsize=1)
def all_papers() -> dict[str, Paper]:
    """All papers by name; one that cannot be loaded is named on stderr and left out.

    Returns
    -------
    dict of str to Paper
        Those of featureprism in reading order, then the others.

    Examples
    --------
    >>> import featureprism as fp
    >>> 'gmm-flow' in fp.lab.all_papers()
    True
    """
    papers = {name: _load(*value.split(":")) for name, value in BUILT_IN.items()}
    for entry in _outside():
        try:
            paper = entry.load()
            if not isinstance(paper, Paper):
                raise TypeError(f"{entry.value} is a {type(paper).__name__}, not a featureprism.lab.Paper")
            if paper.name in papers:
                raise ValueError(f"there is a paper called '{paper.name}' already")
        except Exception as error:  # whatever another package raises
            print(f"The paper '{entry.name}' is left out: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            papers[paper.name] = paper
    return papers


def paper_called(name: str) -> Paper:
    """One paper by its name; those of featureprism are loaded without the others.

    Parameters
    ----------
    name : str
        Such as "gmm-flow".

    Returns
    -------
    Paper

    Raises
    ------
    ValueError
        If there is no such paper; the message has the nearest name.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.lab.paper_called('gmm-flow').name
    'gmm-flow'
    """
    if name in BUILT_IN:
        return _load(*BUILT_IN[name].split(":"))
    papers = all_papers()
    if name not in papers:
        raise ValueError(f"No paper is called '{name}'. {did_you_mean(name, papers)}")
    return papers[name]


def _load(module: str, name: str) -> Paper:
    return getattr(import_module(module), name)


def _outside() -> Iterator[EntryPoint]:
    """The entry points of other distributions, by name."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if BUILT_IN.get(entry.name) != entry.value:
            yield entry


def experiments_called(name: str) -> list[Experiment]:
    """The experiments with a name.

    Parameters
    ----------
    name : str
        "all", PAPER or PAPER/ITEM.

    Returns
    -------
    list of Experiment

    Raises
    ------
    ValueError
        If there is no such paper or item; the message has the nearest name.

    Examples
    --------
    >>> import featureprism as fp
    >>> [e.id for e in fp.lab.experiments_called('gmm-flow/figure-2')]
    ['gmm-flow/figure-2']
    """
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
    """One experiment by its name.

    Parameters
    ----------
    name : str
        PAPER/ITEM.

    Returns
    -------
    Experiment

    Raises
    ------
    ValueError
        If there is no such item; the message has the nearest name.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.lab.item_called('gmm-flow/figure-2').title
    'ReLU, pReLU and the Bayes classifier under attack'
    """
    everything = {e.id: e for paper in all_papers().values() for e in paper.experiments}
    if name not in everything:
        raise ValueError(f"No item is called '{name}'. {did_you_mean(name, everything)}")
    return everything[name]
