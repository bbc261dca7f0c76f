"""The checker: believes nothing of the search that found a proof, imports nothing else of the project, and needs numpy alone."""
