"""The checker: believes nothing of the search that found a proof, shares no code with it, and needs numpy alone."""
