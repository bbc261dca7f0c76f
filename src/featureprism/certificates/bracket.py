"""margin_radius: the proven pair [certified, attacked] for any network, from cheap rungs to dear ones."""

import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.attacks import Along, AtRandom, AttackedRadius, Start, minimal_radius, structured_starts
from featureprism.attacks.gradient import in_double
from featureprism.attacks.starts import FAN, fan
from featureprism.certificates.canonical import power_form
from featureprism.certificates.closing import HAIR, close, rungs
from featureprism.certificates.deep import as_layers
from featureprism.certificates.margins import proven_margins
from featureprism.certificates.readouts import INTERRUPTED, proven_readouts
from featureprism.checker.certificate import Certificate
from featureprism.geometry import check_domain, row_norms, unit_rows
from featureprism.networks import MLP, BayesClassifier, BinaryReadout, TwoLayerNet
from featureprism.networks.protocols import HasExactRadius
from featureprism.networks.symmetric import SymmetricNet, unsmoothed
from featureprism.records import Progress, RadiusBracket, check_points, silent
from featureprism.seeds import generator_for

NEAR_KINKS = 1e-3  # points nearer to the origin than this share of the farthest kink are attacked as if they were there
FEW_DIMENSIONS, RAYS = 32, 48  # where random rays are worth their time, and how many
BEYOND = 1.001  # times a radius in question: how far proofs about it look
METHODS = {"readout": "lipschitz"}  # kinds of certificates that users know by another name
EXACT_ROUNDING = 1e-9  # relative, of closed forms


def margin_radius(
    net: nn.Module,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    norm: float = 2,
    gap: float = 0.01,
    seconds_per_point: float = 1.0,
    max_cells: int = 500,
    starts: Sequence[Start] | None = None,
    upper: float | None = None,
    lipschitz: float | None = None,
    domain: tuple[float, float] | None = None,
    at: float | None = None,
    progress: Progress = silent,
) -> RadiusBracket:
    """Per point a proven lower and a witnessed upper bound of min{‖δ‖ : y f(x + δ) ≤ 0}.

    Closed forms where the classifier has one. Two-layer ReLU, pReLU and polynomial networks (any real p ≥ 1, biases or not): the
    attack, then the Lipschitz bound, CROWN and branch and bound over cells (ℓ2), until certified ≥ (1 - gap)·attacked or the
    time or the cells are used up (a limit in cells repeats exactly, one in seconds does not); a symmetric network without smoothing
    is one of them. The two-class read-out of a grouped network: the attack, a Lipschitz bound and boxes of class scores. An `MLP` of
    several ReLU layers: the attack, norms, lines and quadratic proofs in at most max_cells parts of regions. Two layers of tanh: the
    attack and norms. Every certificate has passed the checker. Other modules: the attack, and y f(x)/lipschitz if a Lipschitz
    constant is given, else 0, marked "not certified".
    `starts` are those of the attack (default: `default_starts`), `upper` limits it (default 4 max‖x‖); misclassified points have
    radius 0. With a `domain` (lo, hi) every coordinate of x + δ stays between the two. With `at` only that radius is in question: a
    point is finished once it is proven beyond it or flipped within it, and `attacked` is infinite where nothing within flips. An
    interrupt keeps what is proven so far; points it left untried have the method "interrupted".
    """
    check_points(x, y, at_least=1)
    check_request(norm, gap, seconds_per_point)
    for name, value in (("upper", upper), ("lipschitz", lipschitz), ("at", at)):
        check_radius(name, value)
    if isinstance(net, TwoLayerNet) and net.W.shape[-1] != x.shape[1]:
        raise ValueError(f"The network takes points of dimension {net.W.shape[-1]}, got {x.shape[1]}.")
    began = time.perf_counter()
    plain = unsmoothed(net) if isinstance(net, SymmetricNet) and net.smoothing == 0 else net
    net, x, y = in_double(plain), x.double(), y.double()
    bracket = _closed_form(net, x, y) if norm == 2 else None
    if bracket is None or domain is not None:
        effort, limits = (seconds_per_point, max_cells), (upper, domain, at)
        searched = _searched(net, x, y, norm, gap, effort, starts, limits, lipschitz, progress)
        bracket = searched if bracket is None else _within_domain(bracket, searched)
    progress(1.0)
    return replace(bracket, seconds=(time.perf_counter() - began) / max(1, len(x)))


def check_numbers(**asked: Any) -> None:
    """Refuse options that are no numbers, and cells that cannot be counted; None is one that was left out."""
    for name, value in asked.items():
        if value is not None and not isinstance(value, Real):
            raise ValueError(f"{name} must be one number, got {value!r}.")
    if asked["max_cells"] != int(asked["max_cells"]) or asked["max_cells"] < 0:
        raise ValueError(f"max_cells must be a whole number, 0 or more, got {asked['max_cells']}.")


def check_request(norm: float, gap: float, seconds_per_point: float) -> None:
    """Refuse what no bracket can be asked for."""
    if not 0 < gap < 1:
        raise ValueError(f"The gap must be between 0 and 1, got {gap}.")
    if norm not in (2, inf):
        raise ValueError(f"norm must be 2 or math.inf, got {norm}.")
    if not seconds_per_point >= 0:
        raise ValueError(f"The proof time per point (--seconds) must be 0 or more, got {seconds_per_point}.")


def check_radius(name: str, value: float | None) -> None:
    """Refuse radii that are none; None is one that was left out."""
    if value is not None and not 0 < value < inf:
        raise ValueError(
            f"{name} must be positive and finite, got {value}; leave it out where it is not known."
        )


def _closed_form(net: Any, x: Tensor, y: Tensor) -> RadiusBracket | None:
    """ℓ2, for classifiers that have one; without a box."""
    if isinstance(net, HasExactRadius):
        radius = net.exact_radius(x, y)
        return _rounded_outward(net, x, RadiusBracket(radius, radius))
    if isinstance(net, BayesClassifier):
        return _rounded_outward(net, x, net.radius_bracket(x, y))
    return None


def _within_domain(closed: RadiusBracket, searched: RadiusBracket) -> RadiusBracket:
    """Inside a box radii are no shorter than without: the proven end of a closed form, and the witnesses of an attack."""
    certified = torch.minimum(torch.maximum(closed.certified, searched.certified), searched.attacked)
    return replace(searched, certified=certified, method=closed.method, certificates=())


def _rounded_outward(net: Any, x: Tensor, bracket: RadiusBracket) -> RadiusBracket:
    """The bracket of a closed form that took float scores s = Ux for exact, and unit rows of U for orthogonal.

    Such a radius is a distance in the space of scores: it moves no more than the scores do, and ‖Uδ‖/‖δ‖ lies between the singular
    values of U, whose squares Gershgorin's circles enclose. Misclassified points keep radius 0.
    """
    U = unit_rows(net.input_directions().double())
    rounding = 8 * (x.shape[1] + len(U) + 16) * torch.finfo(torch.float64).eps
    slack = rounding * torch.linalg.vector_norm(x.abs() @ U.abs().T, dim=1)
    gram = (U @ U.T).abs()
    around = gram.sum(dim=1) - gram.diagonal()
    most, least = (
        (gram.diagonal() + around).max().sqrt(),
        (gram.diagonal() - around).min().clamp_min(0).sqrt(),
    )
    low = (bracket.certified * (1 - EXACT_ROUNDING) - slack).clamp_min(0) / most
    high = (bracket.attacked * (1 + EXACT_ROUNDING) + slack) / least
    high = torch.where(bracket.attacked > 0, high, bracket.attacked)
    return RadiusBracket(low, high, ("closed form",) * len(x))


def default_starts(net: nn.Module, dim: int) -> tuple[Start, ...]:
    """The structured starts, and in few dimensions rays in all directions; in two or three these leave no cone out."""
    if dim in FAN:
        return (*structured_starts(net), Along(fan(dim)))
    everywhere = (AtRandom(RAYS, generator_for("rays", 0)),) if dim <= FEW_DIMENSIONS else ()
    return (*structured_starts(net), *everywhere)


def default_reach(net: nn.Module, x: Float[Tensor, "n d"], norm: float) -> Float[Tensor, " n"]:
    """Four times the length of each point, and not much less than where the neurons have their kinks."""
    length = torch.linalg.vector_norm(x, ord=norm, dim=1)
    W, b = getattr(net, "W", None), getattr(net, "b", None)
    kinks = 1.0  # of networks that do not show theirs
    if isinstance(W, Tensor) and W.ndim == 2:
        norms = row_norms(W.detach().double())
        offsets = torch.zeros_like(norms) if b is None else b.detach().double().abs()
        kinks = float(torch.where(norms > 0, offsets / norms, torch.zeros_like(norms)).max())
    length = length.clamp_min(NEAR_KINKS * kinks)
    return 4 * torch.where(length > 0, length, 1.0)


def _searched(
    net: Any,
    x: Tensor,
    y: Tensor,
    norm: float,
    gap: float,
    effort: tuple[float, int],
    starts: Sequence[Start] | None,
    limits: tuple[float | None, tuple[float, float] | None, float | None],
    lipschitz: float | None,
    progress: Progress,
) -> RadiusBracket:
    upper, domain, at = limits
    if domain is not None:
        check_domain(x, domain)
    with torch.no_grad():
        margin = y * net(x)
    if wild := int((~torch.isfinite(margin)).sum()):
        raise ValueError(
            f"The network gives NaN or infinite values on {wild} of {len(x)} points; scale its weights or the points down."
        )
    starts = default_starts(net, x.shape[1]) if starts is None else starts
    reach = upper or default_reach(net, x, norm)
    attacked = minimal_radius(net, x, y, starts=starts, upper=reach, norm=norm, domain=domain)
    if at is not None:
        attacked.radius[attacked.radius > at] = inf
    asked, gap = (attacked, gap) if at is None else _asked_at(attacked, at)
    before = asked.radius.clone()
    form = power_form(net) if isinstance(net, TwoLayerNet) else None
    layers = as_layers(net) if isinstance(net, MLP | TwoLayerNet) and lipschitz is None else None
    if isinstance(net, BinaryReadout) and norm == 2:
        proofs, untried = proven_readouts(net, x, y, asked, gap, effort, progress)
    elif layers is not None:
        proofs, untried = proven_margins(layers, x, y, asked, (norm, gap, domain), effort, progress)
    elif isinstance(net, TwoLayerNet) and form is not None:
        proofs = rungs(form, x, y, margin, norm, asked.radius)
        untried = close(net, form, x, y, asked, proofs, gap, (norm, domain, *effort), progress)
    else:
        constant = torch.zeros_like(margin) if lipschitz is None else margin.clamp_min(0) / lipschitz
        name = "not certified" if lipschitz is None else "given Lipschitz constant"
        return _with_witnesses(attacked, constant, [name] * len(x), [])
    # proofs that helped the attack have put their deltas in place already
    helped = (asked.radius < before) & (asked.radius <= (at or inf))
    attacked.radius[helped] = asked.radius[helped]
    certified = torch.tensor([c.radius for c in proofs], dtype=torch.float64)
    names = [
        "misclassified" if m <= 0 else METHODS.get(c.kind, c.kind)
        for m, c in zip(margin, proofs, strict=True)
    ]
    for i in untried:
        names[i] = INTERRUPTED
    return _with_witnesses(attacked, certified, names, proofs)


def _with_witnesses(
    attacked: AttackedRadius, certified: Tensor, names: Sequence[str], proofs: Sequence[Certificate]
) -> RadiusBracket:
    """The bracket of an attack and what was proven."""
    shares = attacked.zero_gradient_share, attacked.blind_share
    return RadiusBracket(certified, attacked.radius, tuple(names), attacked.delta, tuple(proofs), *shares)


def _asked_at(attacked: AttackedRadius, at: float) -> tuple[AttackedRadius, float]:
    """What proofs are asked where only one radius is in question, and up to which gap: nothing of points that are flipped within."""
    radius = torch.where(attacked.radius > at, attacked.radius.clamp_max(BEYOND * at), 0.0)
    return replace(attacked, radius=radius), 1 - HAIR / BEYOND
