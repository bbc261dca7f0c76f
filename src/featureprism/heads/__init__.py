"""Scikit-learn estimators: the remedies, for people's own embeddings."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from featureprism.heads.estimators import DecoupledHead, PReLUHead, load_head
    from featureprism.heads.gaussian import GaussianHead

__all__ = ["DecoupledHead", "GaussianHead", "PReLUHead", "load_head"]


def __getattr__(name: str) -> Any:
    """The estimators when they are used: scikit-learn takes a second to import."""
    if name not in __all__:
        raise AttributeError(f"module 'featureprism.heads' has no attribute {name!r}")
    from featureprism.heads import estimators

    return getattr(estimators, name)
