"""Which points are proven at one radius: the question of robust accuracy, cheaper than the radius of every point."""

import time
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.attacks.gradient import in_double, margin_gradient
from featureprism.certificates.canonical import PowerForm, power_form
from featureprism.certificates.cells import Problem
from featureprism.certificates.record import cells_certificate, crown_certificate
from featureprism.certificates.rungs import crown_radius
from featureprism.certificates.search import prove
from featureprism.checker.certificate import Certificate
from featureprism.networks import TwoLayerNet
from featureprism.records import check_points

BEYOND = 1.001  # cells reach a little farther than the radius asked for, so that rounding does not reopen the question


class ProvenAt(NamedTuple):
    """Robust accuracy as a pair: points that are `proven` at the radius, and points that the attack did not flip."""

    proven: Bool[Tensor, " n"]
    standing: Bool[Tensor, " n"]
    certificates: tuple[Certificate | None, ...]

    @property
    def certified(self) -> float:
        """Share of points that no perturbation of the radius flips."""
        return float(self.proven.double().mean())

    @property
    def attacked(self) -> float:
        """Share of points that no perturbation found flips."""
        return float(self.standing.double().mean())


def proven_at(
    net: TwoLayerNet,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    eps: float,
    delta: Float[Tensor, "n d"],
    *,
    max_cells: int = 64,
    seconds_per_point: float = 10.0,
) -> ProvenAt:
    """ℓ2: CROWN, then branch and bound, on every point that `delta` (an attack's perturbations at eps) leaves standing.

    One hidden layer of ReLU or its powers. Every proof has passed the checker.
    """
    check_points(x, y, at_least=1)
    form = power_form(net := in_double(net))
    if form is None:
        raise ValueError("Proofs exist for one hidden layer of ReLU or its powers.")
    x, y, delta = x.double(), y.double(), delta.double()
    with torch.no_grad():
        standing = (y * net(x) > 0) & (y * net(x + delta) > 0)
    certificates: list[Certificate | None] = [None] * len(x)
    open_points = standing.nonzero().flatten()
    votes = y.unsqueeze(1) * form.weight
    reach = torch.full_like(y, BEYOND * eps)
    crown = crown_radius(form, x @ form.W.T + form.b, votes, 2, reach)
    for i in [i for i in open_points.tolist() if crown[i] >= eps]:
        found = crown_certificate(form, x[i], float(y[i]), float(crown[i]), 2)
        certificates[i] = found if found.radius >= eps else None
    left = torch.tensor([i for i in open_points.tolist() if certificates[i] is None], dtype=torch.long)
    if len(left):
        found = _by_cells(net, form, x[left], y[left], delta[left], eps, max_cells, seconds_per_point)
        for i, certificate in zip(left.tolist(), found, strict=True):
            certificates[i] = certificate
    is_proven = torch.tensor([c is not None for c in certificates])
    return ProvenAt(is_proven, standing, tuple(certificates))


def _by_cells(
    net: TwoLayerNet,
    form: PowerForm,
    x: Tensor,
    y: Tensor,
    delta: Tensor,
    eps: float,
    max_cells: int,
    seconds_per_point: float,
) -> list[Certificate | None]:
    """Trees of cells around each point; None where they prove less than eps."""
    _, gradient = margin_gradient(net, x + delta, y)
    own = y.unsqueeze(1) * form.weight > 0
    reach = torch.full_like(y, BEYOND * eps)
    problem = Problem(form.gram, x @ form.W.T + form.b, form.weight.abs().expand_as(own), own, reach, form.p)
    tau = eps / torch.linalg.vector_norm(gradient, dim=1).clamp_min(1e-12)
    goal = reach / BEYOND * (1 + 1e-6)
    deadline = time.perf_counter() + seconds_per_point * len(x)
    trees = prove(problem, (x + delta) @ form.W.T + form.b, tau, goal, max_cells=max_cells, deadline=deadline)
    found: list[Certificate | None] = []
    for tree, point, label in zip(trees, x, y, strict=True):
        near = tree.bound >= eps
        certificate = cells_certificate(tree, form, BEYOND * eps, point, float(label)) if near else None
        found.append(certificate if certificate is not None and certificate.radius >= eps else None)
    return found
