"""A certificate: a small plain record that anyone can check, and what the checker grants it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from featureprism.checker.cells import proven_radius
from featureprism.checker.cheap import crown_proves, lipschitz_radius
from featureprism.checker.ellipsoids import proven_in_ball, proven_in_ellipsoid
from featureprism.checker.lines import Room, proven_box_radius
from featureprism.checker.scaled import Network, Problem, posed

EVERYWHERE = (-np.inf, np.inf)


@dataclass(frozen=True)
class Certificate:
    """No perturbation below `radius` flips the point: which bound, and its parameters.

    kind "cells": a tree of cuts {cut, value, below, above} whose leaves carry multipliers, about perturbations up to `reach` and in
    the units of the scaled problem (see scaled.py); "lines": such a tree for ℓ∞ (see lines.py); "ellipsoid": a tree of cells and
    {weights}, for ℓ∞, and for ℓ2 in a box (see ellipsoids.py); "boxes": {trees}, such trees in class scores, of a read-out (see
    readouts.py); "deep": such trees at 0, whose leaves carry multipliers of several layers (see deep.py); "lipschitz", "crown", "norm
    product" and "readout" need no parameters. `norm` is 2 (not lines) or inf (CROWN, lines, ellipsoid, deep and norm products).
    Perturbed points have all coordinates in `domain`.
    """

    radius: float
    kind: str
    norm: float = 2
    reach: float = 0.0
    tree: dict[str, Any] = field(default_factory=dict)
    domain: tuple[float, float] = EVERYWHERE


def granted(certificate: Certificate, network: Network, x: np.ndarray, y: float) -> float:
    """The radius the checker grants: 0 for malformed certificates, and where a computation fails."""
    question = (
        certificate.reach if certificate.kind in ("cells", "lines", "ellipsoid") else certificate.radius
    )
    with np.errstate(all="ignore"):
        try:
            problem = posed(network, x, float(y), question)
            return problem.unscaled(_in_its_units(certificate, problem, x))
        except ValueError:
            return 0.0


def _in_its_units(certificate: Certificate, problem: Problem, x: np.ndarray) -> float:
    if certificate.kind in ("lines", "ellipsoid") and certificate.norm == np.inf:
        room = Room.around(x, certificate.domain, problem.length)
        prove = proven_box_radius if certificate.kind == "lines" else proven_in_ellipsoid
        return prove(certificate.tree, problem, room)
    if certificate.kind == "ellipsoid" and certificate.norm == 2:
        return proven_in_ball(certificate.tree, problem, Room.around(x, certificate.domain, problem.length))
    if certificate.kind == "crown" and certificate.norm in (2, np.inf):
        return problem.radius if crown_proves(problem, certificate.norm) else 0.0
    if certificate.kind == "lipschitz" and certificate.norm == 2:
        return lipschitz_radius(problem)
    if certificate.kind == "cells" and certificate.norm == 2:
        return proven_radius(certificate.tree, problem)
    raise ValueError(f"No certificate of kind {certificate.kind} is known for the norm {certificate.norm}.")
