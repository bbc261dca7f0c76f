"""A certificate: a small plain record that anyone can check, and the radius that the checker verifies."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from featureprism.checker.cells import proven_radius
from featureprism.checker.cheap import lipschitz_radius
from featureprism.checker.ellipsoids import proven_in_ball, proven_in_ellipsoid
from featureprism.checker.lines import Bounds, Room, proven_by_lines
from featureprism.checker.scaled import Network, Problem, posed, refuse_unless

EVERYWHERE: Bounds = (-np.inf, np.inf)


@dataclass(frozen=True)
class Certificate:
    """A proof that no perturbation below a radius flips a point: which bound, and its parameters.

    Parameters
    ----------
    radius : float
        No perturbation below it flips the point.
    kind : str
        Which bound proves it (docs/proof_format.md).
    norm : 2 or inf
        Norm of the perturbations.
    reach : float
        The proof is about perturbations up to this norm.
    tree : dict
        Cuts {cut, value, below, above} whose leaves carry parameters; for one hidden layer beside {votes, scale} of
        the root, for a whole proof {numbers}, for the kind "boxes" {trees}.
    domain : pair of bounds
        Perturbed points have all coordinates within them.
    """

    radius: float
    kind: str
    norm: float = 2
    reach: float = 0.0
    tree: dict[str, Any] = field(default_factory=dict)
    domain: Bounds = EVERYWHERE


def verified(certificate: Certificate, network: Network, x: np.ndarray, y: float) -> float:
    """The radius that is verified: 0 for malformed certificates, and where a computation fails."""
    with np.errstate(all="ignore"):
        try:
            reach = certificate.radius if certificate.kind == "lipschitz" else certificate.reach
            votes, scale = certificate.tree.get("votes"), certificate.tree.get("scale", 0)
            refuse_unless(isinstance(votes, np.ndarray), "votes")
            problem = posed(network, x, float(y), reach, votes, scale)
            return problem.unscaled(_in_its_units(certificate, problem, x))
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return 0.0


def _in_its_units(certificate: Certificate, problem: Problem, x: np.ndarray) -> float:
    kind, norm, tree = certificate.kind, certificate.norm, certificate.tree
    refuse_unless(norm in (2, np.inf), f"the norm 2 or inf, not {norm}")
    if kind == "lipschitz" and norm == 2:
        return lipschitz_radius(problem)
    if kind == "cells" and norm == 2:
        return proven_radius(tree, problem)
    if kind in ("crown", "lines") and norm == 2:
        return proven_by_lines(tree, problem, None)
    room = Room.around(x, certificate.reach, certificate.domain, problem.length)
    if kind in ("crown", "lines"):
        return proven_by_lines(tree, problem, room)
    if kind == "ellipsoid":
        return (proven_in_ball if norm == 2 else proven_in_ellipsoid)(tree, problem, room)
    raise ValueError(f"No certificate of kind {kind} is known for the norm {norm}.")
