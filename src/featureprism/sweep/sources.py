"""Old path of featureprism.lab.sources."""

from featureprism.lab.sources import dependencies as dependencies
