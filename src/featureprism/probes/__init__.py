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
from featureprism.probes.forgetting import Forgotten, forget
from featureprism.probes.kkt import KKTAudit, cluster_sums, direction_cosines, kkt_audit, summed_neurons
from featureprism.probes.kkt_points import KKTPoint, kkt_points
from featureprism.probes.self_test import SelfTest, self_test
from featureprism.probes.voronoi import (
    VOID,
    nondegeneracy_gap,
    nondegeneracy_margin,
    voronoi_region,
)
from featureprism.probes.witness import Witness, other_data

__all__ = [
    "VOID",
    "Decomposition",
    "Forgotten",
    "KKTAudit",
    "KKTPoint",
    "Quartiles",
    "SelfTest",
    "SphereDistance",
    "Witness",
    "alignment",
    "alive",
    "balancedness",
    "by_least_squares",
    "cluster_masses",
    "cluster_sums",
    "cosines",
    "direction_cosines",
    "forget",
    "from_updates",
    "kkt_audit",
    "kkt_points",
    "nondegeneracy_gap",
    "nondegeneracy_margin",
    "other_data",
    "quartiles",
    "self_test",
    "sphere_distance",
    "summed_neurons",
    "voronoi_region",
]
