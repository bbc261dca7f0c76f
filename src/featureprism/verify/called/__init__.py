"""Models that are no networks: trees, neighbours, kernels, functions; bounds where there are some, and an attack by answers alone."""
