"""Scikit-learn estimators: the remedies, for people's own embeddings."""

from typing import TYPE_CHECKING, Any

from featureprism.heads.network import HeadNet

if TYPE_CHECKING:
    from featureprism.heads.estimators import DecoupledHead, PReLUHead, load_head
    from featureprism.heads.gaussian import GaussianHead

__all__ = ["DecoupledHead", "GaussianHead", "HeadNet", "PReLUHead", "load_head"]


def __getattr__(name: str) -> Any:
    """The estimators when they are asked for: scikit-learn takes a second to import, and HeadNet does not need it."""
    if name not in __all__:
        raise AttributeError(f"module 'featureprism.heads' has no attribute {name!r}")
    from featureprism.heads import estimators

    return getattr(estimators, name)
