"""An audit of a head on embeddings, and of the heads one could have instead."""

from featureprism.audit.run import audit

__all__ = ["audit"]
