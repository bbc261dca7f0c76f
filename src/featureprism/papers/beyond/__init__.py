"""What no paper has: findings of our own, measured like theirs."""

from featureprism.papers.beyond.blind_attacks import BLIND_ATTACKS

EXPERIMENTS = (BLIND_ATTACKS,)

__all__ = ["EXPERIMENTS"]
