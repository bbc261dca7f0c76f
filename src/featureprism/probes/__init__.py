"""What the neurons learned; reads, changes nothing."""

from featureprism.probes.alignment import (
    Quartiles,
    alignment,
    alive,
    balancedness,
    cluster_masses,
    cosines,
    quartiles,
)
from featureprism.probes.distance import SphereDistance, sphere_distance
from featureprism.probes.voronoi import (
    VOID,
    nondegeneracy_gap,
    nondegeneracy_margin,
    voronoi_region,
)

__all__ = [
    "VOID",
    "Quartiles",
    "SphereDistance",
    "alignment",
    "alive",
    "balancedness",
    "cluster_masses",
    "cosines",
    "nondegeneracy_gap",
    "nondegeneracy_margin",
    "quartiles",
    "sphere_distance",
    "voronoi_region",
]
