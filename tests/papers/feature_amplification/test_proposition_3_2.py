"""How much features change."""

from dataclasses import replace

from featureprism.papers.feature_amplification.proposition_3_2 import PROPOSITION_3_2

TINY = {
    PROPOSITION_3_2.id: [
        replace(s, dim=s.dim // 10, points=80, width=20) for s in PROPOSITION_3_2.settings("quick")
    ]
}
