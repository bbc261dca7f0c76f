"""Shortest flips of pairs: the minimum-norm attack on all targets, then the nearest ones drawn in along the boundary."""

from collections.abc import Sequence
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.attacks import Along, Start, minimal_radius, structured_starts
from featureprism.attacks.boundary import flips_near
from featureprism.attacks.gradient import to_span
from featureprism.attacks.minimum_norm import RESTARTS, minimum_norm
from featureprism.attacks.starts import FAN, AlongEach, fan
from featureprism.geometry import LpBall, row_norms
from featureprism.models.scores import NeuronMargins
from featureprism.seeds import generator_for
from featureprism.verify.pairs import Pairs

NEAR_KINKS = 1e-3  # points nearer to the origin than this share of the farthest kink are attacked as if they were there
FEW_DIMENSIONS, RAYS = 32, 48  # where rays in all directions are worth their time, and how many
L2_RESTARTS = 3  # of the minimum-norm attack: ℓ2 flips are drawn in by convex-concave steps as well
TRIED = 3  # targets of each point whose ℓ2 flips are drawn in: the nearest ones
SMALL, TOGETHER = 20_000, 12  # weights of networks that make restarts side by side, and how many at most
SHORTER = 1 - 1e-6  # of a flip: what counts as shorter


def attack_pairs(pairs: Pairs, starts: Sequence[Start] | None, *, quick: bool = False) -> None:
    """Flips of the points that are open, with eps those within that radius alone; `quick`: without restarts."""
    if starts is not None and not pairs.model.has_one_output:
        raise ValueError("starts are for networks with one output; models with many scores choose their own.")
    rows = torch.nonzero(torch.isin(pairs.point, pairs.point[pairs.open()]))[:, 0]
    if not len(rows):
        return
    is_l2 = pairs.query.norm == 2
    is_l1 = pairs.query.norm == 1
    if (
        pairs.model.has_one_output and not is_l1
    ):  # gradients of powers vanish on the way: structured starts come first
        _draw_in(pairs, rows, starts, 1, 0)
    _attack_targets(pairs, rows, 0 if quick else L2_RESTARTS if is_l2 else RESTARTS)
    if not quick and not is_l1 and (is_l2 or pairs.x.shape[1] <= FEW_DIMENSIONS):
        for tried, rounds in ((TRIED, 0), (1, 8)) if is_l2 else ((1, 0),):
            _draw_in(pairs, rows, starts, tried, rounds)
    if pairs.query.eps is not None:
        pairs.length[pairs.length > pairs.query.eps] = inf


def _attack_targets(pairs: Pairs, rows: Tensor, restarts: int) -> None:
    """The minimum-norm attack on all pairs of some points; with eps a point is finished with its first flip within that radius."""
    x, point = pairs.points(rows), torch.unique(pairs.point[rows], return_inverse=True)[1]
    flips = minimum_norm(
        pairs.model.scores if pairs.model.has_one_output else pairs.model.net,
        x,
        pairs.label[pairs.point[rows]],
        pairs.target[rows],
        point,
        norm=pairs.query.norm,
        domain=pairs.query.bounds,
        reach=_reach(pairs, x),
        enough=pairs.query.eps or 0.0,
        starts=pairs.delta[rows].unsqueeze(0) if pairs.model.has_one_output else None,
        restarts=restarts,
        together=_restarts_together(pairs),
    )
    shorter = flips.length < pairs.length[rows]
    pairs.length[rows[shorter]], pairs.delta[rows[shorter]] = flips.length[shorter], flips.delta[shorter]


def _restarts_together(pairs: Pairs) -> int:
    """How many restarts a small network makes side by side; this must not depend on the points."""
    num_weights = sum(t.numel() for t in pairs.model.net.state_dict().values())
    return min(TOGETHER, max(1, SMALL // max(num_weights, 1)))


def _draw_in(pairs: Pairs, rows: Tensor, given: Sequence[Start] | None, tried: int, rounds: int) -> None:
    """Shorten the flips of the nearest targets of every point that is not finished."""
    shortest, _ = pairs.shortest()
    length = pairs.length.reshape(len(pairs.x), -1)
    nearest = (length.argsort(dim=1, stable=True).argsort(dim=1) < tried).flatten()
    rows = rows[(nearest & (shortest > (pairs.query.eps or 0.0))[pairs.point])[rows]]
    if not len(rows):
        return
    net, x = pairs.margins(rows), pairs.points(rows)
    ahead = torch.ones(len(x)).double()
    if pairs.model.has_one_output and pairs.model.one_layer is None:
        net, ahead = pairs.model.net, 2.0 * pairs.label[pairs.point[rows]].double() - 1
    flips = minimal_radius(
        net,
        x,
        ahead,
        starts=_starts(pairs, rows, net, given),
        upper=_reach(pairs, x),
        norm=pairs.query.norm,
        rounds=rounds,
        domain=pairs.query.bounds,
    )
    if pairs.model.has_one_output:
        pairs.zero_gradient_share, pairs.blind_share = flips.zero_gradient_share, flips.blind_share
    shorter = flips.radius < pairs.length[rows]
    pairs.length[rows[shorter]], pairs.delta[rows[shorter]] = flips.radius[shorter], flips.delta[shorter]


def _starts(pairs: Pairs, rows: Tensor, net: nn.Module, given: Sequence[Start] | None) -> list[Start]:
    """Along known flips, along the strongest neurons, in all directions where there are few, and what networks with one output have."""
    x, deltas = pairs.points(rows), [pairs.delta[rows].unsqueeze(0)]
    if pairs.model.has_one_output:
        sign, unit = 2.0 * pairs.label[pairs.point[rows]].double() - 1, LpBall(pairs.query.norm, 1.0)
        every = default_starts(pairs.model.net, x.shape[1]) if given is None else given
        deltas += [start.deltas(x, sign, unit) for start in every]
    elif isinstance(net, NeuronMargins):
        deltas.append(net.strong_directions())
    starts: list[Start] = [AlongEach(torch.cat(deltas))]
    if x.shape[1] in FAN and not pairs.model.has_one_output:
        starts.append(Along(fan(x.shape[1])))
    return starts


def attack_from(pairs: Pairs, rows: Tensor, towards: Float[Tensor, "s r d"]) -> None:
    """Look for shorter ℓ2 flips of some pairs near known ones and near these perturbations."""
    net, x, ones = pairs.margins(rows), pairs.points(rows), torch.ones(len(rows)).double()
    small, z, basis = to_span(net, x)
    best, shortest = pairs.delta[rows], pairs.length[rows].clone()
    limit = SHORTER * shortest
    for start in (best, *towards):
        near, _ = flips_near(small, z, ones, start if basis is None else start @ basis)
        trial = near if basis is None else near @ basis.T
        length = torch.linalg.vector_norm(trial, dim=1)
        better = (net(x + trial) <= 0) & (length < torch.minimum(shortest, limit))
        best = torch.where(better.unsqueeze(1), trial, best)
        shortest = torch.where(better, length, shortest)
    pairs.keep_flips(rows, shortest, best)


def default_starts(net: nn.Module, dim: int) -> tuple[Start, ...]:
    """The structured starts, and in few dimensions rays in all directions; in two or three these leave no cone out."""
    if dim in FAN:
        return (*structured_starts(net), Along(fan(dim)))
    rays = torch.randn(RAYS, dim, generator=generator_for("rays", 0), dtype=torch.float64)
    return (*structured_starts(net), *((Along(rays),) if dim <= FEW_DIMENSIONS else ()))


def _reach(pairs: Pairs, x: Tensor) -> Float[Tensor, " m"]:
    if pairs.query.max_radius is not None:
        return x.new_full((len(x),), pairs.query.max_radius)
    return default_reach(pairs.model.net, x, pairs.query.norm)


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
