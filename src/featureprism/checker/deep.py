"""The proof checker for several layers of ReLU: one matrix that must be positive definite.

Let z be the first layer's values and y hold z and the values h of all neurons that may be on or off. On every perturbation of the
region (see layers.py) the margin m is an affine function of y, and these are not negative, n = h - z being the negative part:

    radius² - ‖R(z - z_c)‖²,   h (high - h),   n (-low - n),   and h n = 0,

the first with R such that ‖R W_1 δ‖ ≤ ‖δ‖. For multipliers λ, τ, σ ≥ 0 and κ of any sign m ≥ L(y) = m - λ(…) - Σ τ h(high - h) -
Σ σ n(-low - n) - Σ κ h n, a quadratic form of (1, y). If its matrix is positive definite, m > 0: no perturbation flips the label.
In a box, or for ℓ∞, the ball is an ellipsoid: with s₀ and s ≥ 0, s₀(radius² - ‖δ‖²) + Σ s_i (δ_i - low_i)(high_i - δ_i) ≥ 0 is one.
All parameters are free: a bad choice proves nothing, never something false. Cuts z_j ≤ 0, z_j ≥ 0 divide the region as in cells.py:
with c = ±z_j ≥ 0 the neuron has c (end - c) ≥ 0 in place of its products. Where the first layer has more neurons that matter than there
are inputs, y holds the perturbation in place of z. A leaf with no multipliers at all is proven by lines, or by being empty.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from featureprism.checker.cells import DEEPEST, MOST_CUTS, least_eigenvalue
from featureprism.checker.certificate import Certificate
from featureprism.checker.enclosed import Enclosed, down, enclosed, outward, up
from featureprism.checker.layers import Layers, Region, activated, below, neuron_bounds, norms_above
from featureprism.checker.relaxations import relaxation
from featureprism.checker.scaled import is_array, refuse_unless

Tree = dict[str, Any]


def crown_proves(model: Layers, x: np.ndarray, own: int, rival: int, region: Region) -> bool:
    """Whether lines alone keep f_own - f_rival positive."""
    c = enclosed(model.weights[0]) @ x + model.biases[0]
    rows, offset = model.margins(own)
    known = neuron_bounds(model, c, region, {})
    return bool(below(rows, offset, known, model, c, region)[rival] > 0)


def proves(tree: Tree, model: Layers, x: np.ndarray, own: int, rival: int, region: Region) -> bool:
    """Whether the tree keeps f_own - f_rival positive in the region."""
    leaves = _leaves(tree, sum(model.widths))
    return all(leaf_proves(leaf, model, x, own, rival, region, signs) for leaf, signs in leaves)


def leaf_proves(
    leaf: Tree, model: Layers, x: np.ndarray, own: int, rival: int, region: Region, signs: dict[int, float]
) -> bool:
    """Whether a leaf does where neurons have these signs; without any multipliers lines alone have to."""
    c = enclosed(model.weights[0]) @ x + model.biases[0]
    known = neuron_bounds(model, c, region, signs)
    if any((layer.low > layer.high).any() for layer in known):
        return True  # no perturbation is here
    if is_array(leaf.get("multipliers"), (0,)):
        rows, offset = model.margins(own)
        return bool(below(rows, offset, known, model, c, region)[rival] > 0)
    multipliers = _multipliers(leaf, model, len(x))
    relaxed = relaxation(model, x, (own, rival), region, known, signs, multipliers["side"])
    return relaxed is not None and _is_positive(relaxed.form(multipliers))


def _is_positive(form: Enclosed) -> bool:
    """Whether all eigenvalues are surely positive; powers of two from both sides, which is exact, bring the diagonal near 1."""
    diagonal = np.diagonal(form.mid)
    if not ((diagonal > 0).all() and np.isfinite(form.mid).all() and np.isfinite(form.rad).all()):
        return False
    shift = -(np.frexp(diagonal)[1] // 2)
    both = shift[:, None] + shift
    try:
        return least_eigenvalue(Enclosed(np.ldexp(form.mid, both), outward(np.ldexp(form.rad, both)))) > 0
    except np.linalg.LinAlgError:
        return False


def _leaves(tree: Tree, width: int) -> Iterator[tuple[Tree, dict[int, float]]]:
    """All leaves, each with the signs that the cuts on the way to it give to neurons."""
    waiting, cuts = [(tree, {}, 0)], 0
    while waiting:
        node, signs, depth = waiting.pop()
        refuse_unless(isinstance(node, dict), "a tree of dictionaries")
        if "cut" not in node:
            yield node, signs
            continue
        cuts, j = cuts + 1, node["cut"]
        refuse_unless(depth < DEEPEST and cuts < MOST_CUTS, f"at most {MOST_CUTS} cuts, {DEEPEST} deep")
        refuse_unless(
            type(j) is int and 0 <= j < width and j not in signs, f"a cut at another neuron, not {j}"
        )
        refuse_unless(
            node.get("value") == 0.0 and {"below", "above"} <= node.keys(), "cuts at 0 with both sides"
        )
        waiting += [(node[side], {**signs, j: s}, depth + 1) for side, s in (("below", -1.0), ("above", 1.0))]


def _multipliers(leaf: Tree, model: Layers, dim: int) -> dict[str, Any]:
    """{ball: λ, side: (1 + d,) s₀ and s, kappa, tau, sigma: (H,) of all hidden neurons} of a leaf."""
    H = sum(model.widths)
    values = leaf.get("multipliers")
    refuse_unless(
        is_array(values, (2 + dim + 3 * H,)), f"multipliers as a finite float64 array ({2 + dim + 3 * H},)"
    )
    assert isinstance(values, np.ndarray)
    ball, side, rest = values[0], values[1 : 2 + dim], values[2 + dim :].reshape(3, H)
    signed = bool(ball >= 0 and (side >= 0).all() and (rest[1:] >= 0).all())
    refuse_unless(signed, "multipliers of inequalities that are not negative")
    return {"ball": ball, "side": side, "kappa": rest[0], "tau": rest[1], "sigma": rest[2]}


def granted(certificate: Certificate, model: Layers, x: np.ndarray, own: int, rival: int) -> float:
    """The radius that the checker grants: 0 for malformed certificates, and where a computation fails."""
    with np.errstate(all="ignore"):
        try:
            refuse_unless(
                is_array(x, model.weights[0].shape[1:]), "x as a finite float64 array that fits the network"
            )
            if certificate.kind == "norm product":
                return norm_product(model, x, own, rival, certificate.norm)
            refuse_unless(model.activation == "relu", "layers of ReLU")
            region = Region.around(x, certificate.radius, certificate.norm, certificate.domain)
            if certificate.kind == "crown":
                return region.radius if crown_proves(model, x, own, rival, region) else 0.0
            refuse_unless(certificate.kind == "deep", "a certificate of the kind crown, deep or norm product")
            return region.radius if proves(certificate.tree, model, x, own, rival, region) else 0.0
        except (ValueError, np.linalg.LinAlgError):
            return 0.0


def norm_product(model: Layers, x: np.ndarray, own: int, rival: int, norm: float) -> float:
    """m(x)/L, L = ‖v_own - v_rival‖ Π ‖W_i‖: activations have slopes between 0 and 1; for ℓ∞ ‖δ‖₂ ≤ √d ‖δ‖."""
    refuse_unless(norm in (2, np.inf), f"the norm 2 or inf, not {norm}")
    rows, offset = model.margins(own)
    h, L = enclosed(x), float(norms_above(rows)[rival])
    for W, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
        h = activated(enclosed(W) @ h + b, model.activation)
        L = up(L * spectral_norm(W))
    if norm == np.inf:
        L = up(L * up(np.sqrt(float(len(x)))))
    margin = (rows @ h + offset).low[rival]
    return float(down(margin / L)) if margin > 0 and L > 0 else 0.0


def spectral_norm(W: np.ndarray) -> float:
    """A float above ‖W‖₂: s² - WWᵀ has no negative eigenvalue; √(Σ W²) where that cannot be shown."""
    G = enclosed(W) @ W.T if len(W) <= W.shape[1] else enclosed(W.T) @ W
    whole = float(norms_above(enclosed(W.reshape(1, -1)))[0])
    largest = float(np.linalg.eigvalsh(G.mid)[-1])
    if not 0 < largest < np.inf:
        return whole
    square = largest * (1 + 1e-9)
    S = (enclosed(square * np.eye(len(G.mid))) - G) * (1 / square)
    try:
        good = least_eigenvalue(S) >= 0
    except np.linalg.LinAlgError:
        good = False
    return min(whole, float(up(np.sqrt(square)))) if good else whole
