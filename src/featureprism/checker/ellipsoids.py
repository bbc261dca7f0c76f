"""The checker's word on ℓ∞ radii by ellipsoids: a box lies in one, and in its own lengths that is a ball, of which cells.py knows.

Perturbations have |δ_i - m_i| ≤ half_i, m the middle of what the radius and the domain leave. For weights s > 0 they all satisfy
Σ s_i (δ_i - m_i)² ≤ ρ² = Σ s_i half_i². With δ' = √s (δ - m) that is ‖δ'‖ ≤ ρ, the neurons are w/√s and their products those of the
Gram matrix W diag(1/s) Wᵀ. If every leaf proves that who flips has ‖δ'‖ ≥ ρ, nobody flips inside. Any weights would be sound.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from featureprism.checker.cells import Tree, leaf_radii, leaves, refuse_malformed, tightened
from featureprism.checker.enclosed import enclosed, outward, up
from featureprism.checker.lines import Room, whole_box
from featureprism.checker.scaled import Problem, is_array, refuse_unless


def proven_in_ellipsoid(tree: Tree, problem: Problem, room: Room) -> float:
    """problem.radius, if the tree proves that nothing within this ℓ∞ radius flips; else 0. Scaled, like the tree."""
    refuse_malformed(tree, problem)
    W, weights = problem.network.neurons, tree.get("weights")
    refuse_unless(is_array(weights, W.shape[1:]), f"weights as a finite float64 array {W.shape[1:]}")
    assert isinstance(weights, np.ndarray)
    refuse_unless(bool((weights > 0).all()), "positive weights")
    below, above = room.within(problem.radius)
    middle = 0.5 * (above - below)
    half = np.maximum(up(above - middle), up(below + middle))
    rho = float(up(np.sqrt(outward((weights * half * half).sum(), len(half)))))
    network = replace(problem.network, weights=weights)
    stretched = replace(problem, network=network, c=problem.c + enclosed(W) @ middle, radius=rho)
    cells = leaves(tree, whole_box(problem, room), partial(tightened, stretched))
    return problem.radius if all(radius >= rho for radius in leaf_radii(cells, stretched)) else 0.0
