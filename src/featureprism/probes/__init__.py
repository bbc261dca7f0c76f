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
from featureprism.probes.decomposition import Decomposition, by_least_squares, from_updates
from featureprism.probes.distance import SphereDistance, sphere_distance
from featureprism.probes.kkt import KKTAudit, cluster_sums, direction_cosines, kkt_audit, summed_neurons
from featureprism.probes.voronoi import (
    VOID,
    nondegeneracy_gap,
    nondegeneracy_margin,
    voronoi_region,
)

__all__ = [
    "VOID",
    "Decomposition",
    "KKTAudit",
    "Quartiles",
    "SphereDistance",
    "alignment",
    "alive",
    "balancedness",
    "by_least_squares",
    "cluster_masses",
    "cluster_sums",
    "cosines",
    "direction_cosines",
    "from_updates",
    "kkt_audit",
    "nondegeneracy_gap",
    "nondegeneracy_margin",
    "quartiles",
    "sphere_distance",
    "summed_neurons",
    "voronoi_region",
]
