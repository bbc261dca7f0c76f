"""What no paper has: findings of our own, measured like theirs."""

from featureprism.papers.beyond.blind_attacks import BLIND_ATTACKS
from featureprism.papers.beyond.robust_heads import ROBUST_HEADS

EXPERIMENTS = (BLIND_ATTACKS, ROBUST_HEADS)

__all__ = ["EXPERIMENTS"]
