"""The proof checker for several layers of ReLU: one matrix that must be positive definite.

Let z be the first layer's values and y hold z and the values h of all neurons that may be on or off. On every perturbation of the
region (see layers.py) the margin m is an affine function of y, and these are not negative, n = h - z being the negative part:

    radius² - ‖R(z - z_c)‖²,   h (high - h),   n (-low - n),   and h n = 0,

the first with R such that ‖R W_1 δ‖ ≤ ‖δ‖. For multipliers λ, τ, σ ≥ 0 and κ of any sign m ≥ L(y) = m - λ(…) - Σ τ h(high - h) -
Σ σ n(-low - n) - Σ κ h n, a quadratic form of (1, y). If its matrix is positive definite, m > 0: no perturbation flips the label.
In a box, or for ℓ∞, the ball is an ellipsoid: with s₀ and s ≥ 0, s₀(radius² - ‖δ‖²) + Σ s_i (δ_i - low_i)(high_i - δ_i) ≥ 0 is one.
Bounds of all neurons are stored, and shown to hold first.
All parameters are free: a bad choice proves nothing, never something false. Cuts z_j ≤ 0, z_j ≥ 0 divide the region as in cells.py:
with c = ±z_j ≥ 0 the neuron has c (end - c) ≥ 0 in place of its products. Neurons with the same or opposite weights share one z. Where
more values of the first layer matter than there are inputs, y holds the perturbation in place of z. A leaf with no
multipliers at all is proven by lines, or by being empty.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from featureprism.checker.cells import DEEPEST, MOST_CUTS, least_eigenvalue
from featureprism.checker.certificate import Certificate
from featureprism.checker.enclosed import SLACK, Enclosed, down, enclosed, outward, unit, up
from featureprism.checker.layers import (
    SPARE,
    Layers,
    Region,
    activated,
    below,
    enclosed_neurons,
    norms_above,
)
from featureprism.checker.relaxations import relaxation
from featureprism.checker.scaled import is_array, is_weights, refuse_strange_radius, refuse_unless

MANY = 500  # rows of a matrix whose eigenvalues take too long
KRYLOV = 120  # dimensions in which the norm of such a matrix is looked for

Tree = dict[str, Any]


def proves(tree: Tree, model: Layers, x: np.ndarray, own: int, rival: int, region: Region) -> bool:
    """Whether the tree keeps f_own - f_rival positive in the region."""
    leaves = _leaves(tree, sum(model.widths))
    return all(leaf_proves(leaf, model, x, own, rival, region, signs) for leaf, signs in leaves)


def leaf_proves(
    leaf: Tree, model: Layers, x: np.ndarray, own: int, rival: int, region: Region, signs: dict[int, float]
) -> bool:
    """Whether a leaf does where neurons have these signs; without any multipliers lines alone have to."""
    H, block = sum(model.widths), leaf.get("block")
    good = any(is_array(block, (size,)) for size in (2 * H, 5 * H + len(x) + 2))
    refuse_unless(good, f"bounds of {H} neurons, and perhaps multipliers, as a finite float64 array")
    assert isinstance(block, np.ndarray)
    c = enclosed(model.weights[0]) @ x + model.biases[0]
    known = enclosed_neurons(model, c, region, signs, block[:H], block[H : 2 * H])
    if known is None:
        return True  # no perturbation is here
    if len(block) == 2 * H:
        rows, offset = (part[rival : rival + 1] for part in model.margins(own))
        spare = SPARE * (np.abs(rows.mid) @ np.maximum(known[-1].high, 0) + np.abs(offset.mid))
        return bool((below(rows, offset, known, model, c, region) > spare).all())
    multipliers = _multipliers(block[2 * H :], len(x))
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


def _multipliers(values: np.ndarray, dim: int) -> dict[str, Any]:
    """{ball: λ, side: (1 + d,) s₀ and s, kappa, tau, sigma: (H,) of all hidden neurons} of a leaf."""
    ball, side, rest = values[0], values[1 : 2 + dim], values[2 + dim :].reshape(3, -1)
    signed = bool(ball >= 0 and (side >= 0).all() and (rest[1:] >= 0).all())
    refuse_unless(signed, "multipliers of inequalities that are not negative")
    return {"ball": ball, "side": side, "kappa": rest[0], "tau": rest[1], "sigma": rest[2]}


def verified(certificate: Certificate, model: Layers, x: np.ndarray, own: int, rival: int) -> float:
    """The radius that is verified: 0 for malformed certificates, and where a computation fails."""
    with np.errstate(all="ignore"):
        try:
            good = is_weights(x, model.weights[0].shape[1:])
            refuse_unless(good, "x as a float64 array of usual numbers that fits the network")
            if certificate.kind == "norm product":
                return norm_product(model, x, own, rival, certificate.norm, certificate.tree.get("numbers"))
            if certificate.kind == "balls":
                refuse_unless(certificate.norm == 2, "the norm 2")
                radius = certificate.radius
                return radius if balls(model, x, own, rival, radius, certificate.tree.get("numbers")) else 0.0
            refuse_unless(model.activation == "relu", "layers of ReLU")
            refuse_unless(
                certificate.kind in ("crown", "deep"), "one of the kinds crown, deep, balls or norm product"
            )
            region = Region.around(x, certificate.reach, certificate.norm, certificate.domain)
            return region.radius if proves(certificate.tree, model, x, own, rival, region) else 0.0
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return 0.0


def norm_product(model: Layers, x: np.ndarray, own: int, rival: int, norm: float, norms: object) -> float:
    """m(x)/L, L = ‖v_own - v_rival‖ Π s_i, s_i ≥ ‖W_i‖: activations have slopes between 0 and 1; for ℓ∞ ‖δ‖₂ ≤ √d ‖δ‖."""
    refuse_unless(norm in (2, np.inf), f"the norm 2 or inf, not {norm}")
    count = len(model.widths)
    refuse_unless(is_weights(norms, (count,)), f"norms of the layers as a float64 array ({count},)")
    assert isinstance(norms, np.ndarray)
    rows, offset = model.margins(own)
    h, L = enclosed(x), float(norms_above(rows)[rival])
    for i, (W, b) in enumerate(zip(model.weights[:-1], model.biases[:-1], strict=True)):
        h = activated(enclosed(W) @ h + b, model.activation)
        refuse_unless(
            _is_norm(model, i, float(norms[i])), "norms that are no smaller than those of the layers"
        )
        L = up(L * norms[i])
    if norm == np.inf:
        L = up(L * up(np.sqrt(float(len(x)))))
    margin = (rows @ h + offset).low[rival]
    return float(down(margin / L)) if margin > 0 and 0 < L < np.inf else 0.0


def balls(model: Layers, x: np.ndarray, own: int, rival: int, radius: float, numbers: object) -> bool:
    """Whether the margin is positive in the ball: one multiplier for each layer (SDP-CROWN, Chiu et al. 2025).

    The values of layer k lie in a ball ‖z - ẑ‖ ≤ ρ_k = radius Π s_i, s_i ≥ ‖W_i‖, around those of the point. For λ > 0 and any g

        Σ_j c_j [z_j]₊ - g_j z_j ≥ λ/2 (‖ẑ‖² - ρ_k²) - Σ_j φ_j²/(2λ),   φ_j = min(c_j - g_j - λẑ_j, g_j + λẑ_j, 0),

    and ⟨g, z⟩ is carried to the layer before.
    """
    refuse_unless(model.activation == "relu", "layers of ReLU")
    refuse_strange_radius(radius)
    count, H = len(model.widths), sum(model.widths)
    refuse_unless(is_weights(numbers, (2 * count + H,)), f"a float64 array ({2 * count + H},) of multipliers")
    assert isinstance(numbers, np.ndarray)
    norms, lams = numbers[:count], numbers[count : 2 * count]
    slopes = np.split(numbers[2 * count :], np.cumsum(model.widths)[:-1])
    refuse_unless(bool((lams > 0).all()), "multipliers of balls that are positive")
    for i, norm in enumerate(norms.tolist()):
        refuse_unless(_is_norm(model, i, norm), "norms that are no smaller than those of the layers")
    radii = [enclosed(radius)]
    for norm in norms.tolist():
        radii.append(radii[-1] * norm)
    values = values_at(model, x)
    rows, offset = model.margins(own)
    c, total = rows[rival], offset[rival]
    for k in range(count - 1, -1, -1):
        z, g, lam = values[k], slopes[k], float(lams[k])
        shifted = z * lam + g
        least = np.minimum(np.minimum((c - shifted).low, shifted.low), 0.0)
        lost = (enclosed(least) * least).sum().high
        lost = up(up(outward(lost) / lam) / 2)
        total = total + (z * z).sum() * (lam / 2) - radii[k + 1] * radii[k + 1] * (lam / 2)
        total = total - lost + (enclosed(g) @ model.biases[k])
        c = enclosed(g) @ model.weights[k]
    total = total + c @ x
    far = up(radius * float(norms_above(Enclosed(c.mid[None], np.broadcast_to(c.rad, c.mid.shape)[None]))[0]))
    return bool(total.low > far)


def values_at(model: Layers, x: np.ndarray) -> list[Enclosed]:
    """The values of all hidden layers at a point, before ReLU; those of the last point are kept."""
    key = (x.tobytes(), unit())
    if key not in model.values:
        h, found = enclosed(x), []
        for W, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
            found.append(enclosed(W) @ h + b)
            h = activated(found[-1], model.activation)
        model.values.clear()
        model.values[key] = found
    return model.values[key]


def _is_norm(model: Layers, i: int, norm: float) -> bool:
    """Whether ‖W_i‖ ≤ norm; asked once of every layer and number."""
    key = (i, norm, unit())
    if key not in model.norms:
        model.norms[key] = bounds_norm(model.weights[i], norm)
    return model.norms[key]


def bounds_norm(W: np.ndarray, norm: float) -> bool:
    """Whether ‖W‖₂ ≤ norm for sure: norm² - WWᵀ has no negative eigenvalue, or √(Σ W²) is no larger."""
    if not norm > 0:
        return False
    if float(norms_above(enclosed(W.reshape(1, -1)))[0]) <= norm:
        return True
    exponent = -int(np.frexp(norm)[1])
    W, norm = np.ldexp(W, exponent), float(np.ldexp(norm, exponent))
    G = enclosed(W) @ W.T if len(W) <= W.shape[1] else enclosed(W.T) @ W
    square = enclosed(norm) * norm
    S = Enclosed(square.mid * np.eye(len(G.mid)), square.rad * np.eye(len(G.mid))) - G
    if not np.isfinite(S.mid).all():
        return False
    try:
        return least_eigenvalue(S, SLACK * norm**2 if len(S.mid) > MANY else None) >= 0
    except np.linalg.LinAlgError:
        return False


def _large_norm(W: np.ndarray) -> float:
    """Nearly ‖W‖₂, from a Krylov space of WᵀW."""
    v = np.random.default_rng(0).normal(size=W.shape[1])
    basis = np.zeros((min(KRYLOV, *W.shape), W.shape[1]))
    for i in range(len(basis)):
        for _ in range(2):
            v = v - basis[:i].T @ (basis[:i] @ v)
        basis[i] = v / max(float(np.linalg.norm(v)), 1e-300)
        v = (W @ basis[i]) @ W
    return float(np.linalg.norm(W @ basis.T, 2))


def spectral_norm(W: np.ndarray) -> float:
    """A float a little above ‖W‖₂ that `bounds_norm` accepts: what a proof stores."""
    n = min(W.shape)
    room = 1e-9 if n <= MANY else 16 * n * n * unit()  # what the rounding of a large matrix needs
    largest = float(np.linalg.norm(W, 2) if n <= MANY else _large_norm(W)) * (1 + SLACK + (n > MANY) * room)
    while largest > 0 and not bounds_norm(W, largest):
        largest *= 1 + room
        room *= 2
    return largest or float(np.finfo(np.float64).tiny)
