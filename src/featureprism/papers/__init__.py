"""The papers, one folder each; the registry is in featureprism.lab."""
