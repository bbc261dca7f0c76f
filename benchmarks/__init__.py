"""How long things take, as ratios to something timed in the same run."""
