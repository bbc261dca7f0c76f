"""Theorem 4.2 with free parameters at a small size."""

from dataclasses import replace

from featureprism.papers.double_edged.free_parameters import FREE_PARAMETERS

TINY = {
    "double-edged/free-parameters": [
        replace(s, dim=s.dim // 10, points=40, test_points=20, steps=60)
        for s in FREE_PARAMETERS.settings("quick")
        if s.cosine in (0.0, 0.3, -0.1) and s.noise in ("gaussian", "signs") and s.sigma != 2
    ]  # one of each kind
}
