"""What the neurons learned; reads, changes nothing."""

from featureprism.probes.alignment import alignment, cluster_masses, cosines
from featureprism.probes.distance import SphereDistance, sphere_distance
from featureprism.probes.forgetting import forget
from featureprism.probes.kkt import KKTAudit, direction_cosines, kkt_audit
from featureprism.probes.kkt_points import KKTPoint, kkt_points
from featureprism.probes.witness import other_data

__all__ = [
    "KKTAudit",
    "KKTPoint",
    "SphereDistance",
    "alignment",
    "cluster_masses",
    "cosines",
    "direction_cosines",
    "forget",
    "kkt_audit",
    "kkt_points",
    "other_data",
    "sphere_distance",
]
