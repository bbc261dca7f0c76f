"""Scikit-learn estimators: the remedies, for people's own embeddings."""

from featureprism.heads.estimators import DecoupledHead, PReLUHead, load_head
from featureprism.heads.network import HeadNet

__all__ = ["DecoupledHead", "HeadNet", "PReLUHead", "load_head"]
