"""The smallest settings of double-edged for which every claim has a value."""

from dataclasses import replace

from featureprism.lab import fields_of
from featureprism.papers.double_edged import PAPER
from featureprism.papers.double_edged.initialisation import INITIALISATION
from featureprism.papers.double_edged.kkt_lab import KKT_LAB, alone
from featureprism.papers.double_edged.many_clusters import MANY_CLUSTERS, crowd

SMALL = {
    "points": 30,
    "test_points": 20,
    "width": 20,
    "iterations": 5,
    "steps": 100,
    "radius_points": 1,
    "variants": ((20, 0.1),),
    "ratios": (0.5, 2.0),
    "draws": 2,
}


def shrunk(s):
    """A twentieth of the dimensions with as much noise, and whatever of SMALL the setting has; no network where none is trained."""
    known = fields_of(s)
    small = {name: value for name, value in SMALL.items() if name in known and known[name] != 0}
    return replace(s, dim=s.dim // 20, **small)


TINY: dict[str, list] = {
    e.id: [shrunk(s) for s in e.settings("quick")]
    for e in PAPER.experiments
    if e not in (INITIALISATION, KKT_LAB, MANY_CLUSTERS)
}
TINY["double-edged/kkt"] = TINY["double-edged/kkt"][
    :1
]  # always 400 steps of three kinds; its claims want no more than the usual case
TINY["double-edged/theorem-4-2"] = [
    s
    for s in TINY["double-edged/theorem-4-2"]
    if s.cosine in (0.0, 0.3, -0.1) and s.noise in ("gaussian", "signs") and s.sigma != 2
]  # one of each kind
TINY["double-edged/initialisation"] = [
    replace(s, dim=20, points=40, sigma=0.002, scale=0.3, shares=(1.5,), radius_points=1)
    for s in INITIALISATION.settings("quick")[1:]
]  # a few steps to the passage
TINY["double-edged/kkt-lab"] = [
    alone(100, 6),
    *(replace(s, dim=50, points=30) for s in KKT_LAB.settings("quick")[1:]),
]
TINY["double-edged/many-clusters"] = [
    replace(crowd(4, 6, 30, 5, 2), steps=100, test_points=12, radius_points=1),
    *(
        replace(s, dim=60, clusters=4, points=20, test_points=12, radius_points=1)
        for s in MANY_CLUSTERS.settings("quick")[1:]
    ),
]
SLOW = frozenset(
    {"double-edged/initialisation", "double-edged/many-clusters"}
)  # several brackets for each setting
