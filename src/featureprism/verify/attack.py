"""Shortest flips of pairs: the minimum-norm attack on all targets, then the nearest ones drawn in along the boundary."""

from collections.abc import Sequence
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.attacks import Along, AtRandom, Start, minimal_radius, structured_starts
from featureprism.attacks.boundary import flips_near
from featureprism.attacks.gradient import to_span
from featureprism.attacks.minimum_norm import RESTARTS, minimum_norm
from featureprism.attacks.starts import FAN, AlongEach, fan
from featureprism.geometry import row_norms
from featureprism.models.margins import NeuronMargins
from featureprism.seeds import generator_for
from featureprism.verify.pairs import Pairs

NEAR_KINKS = 1e-3  # points nearer to the origin than this share of the farthest kink are attacked as if they were there
FEW_DIMENSIONS, RAYS = 32, 48  # where random rays are worth their time, and how many
TRIED = 3  # targets of each point whose ℓ2 flips are drawn in: the nearest ones
SHORTER = 1 - 1e-6  # of a flip: what counts as shorter


def attack_pairs(pairs: Pairs, starts: Sequence[Start] | None, *, quick: bool = False) -> None:
    """Flips of all pairs that are open, with eps those within that radius alone; `quick`: without restarts."""
    if pairs.model.has_one_output:
        _attack_one_output(pairs, starts)
    else:
        if starts is not None:
            raise ValueError(
                "starts are for networks with one output; models with many scores choose their own."
            )
        # ℓ2 flips are drawn in by convex-concave steps as well
        _attack_targets(pairs, 1 if quick else 2 if pairs.query.norm == 2 else RESTARTS)
        for rounds, tried in () if quick else ((0, TRIED), (8, 1)) if pairs.query.norm == 2 else ((0, 1),):
            _draw_in(pairs, tried, rounds)
    if pairs.query.eps is not None:
        pairs.length[pairs.length > pairs.query.eps] = inf


def _attack_one_output(pairs: Pairs, starts: Sequence[Start] | None) -> None:
    net, x, sign = pairs.model.net, pairs.x, 2.0 * pairs.label.double() - 1
    starts = default_starts(net, x.shape[1]) if starts is None else starts
    upper = pairs.query.max_radius or default_reach(net, x, pairs.query.norm)
    flips = minimal_radius(
        net, x, sign, starts=starts, upper=upper, norm=pairs.query.norm, domain=pairs.query.bounds
    )
    pairs.length, pairs.delta = flips.radius, flips.delta
    pairs.zero_gradient_share, pairs.blind_share = flips.zero_gradient_share, flips.blind_share


def _attack_targets(pairs: Pairs, restarts: int) -> None:
    """The minimum-norm attack on every open pair; with eps a point is finished with its first flip within that radius."""
    rows = pairs.open()
    if not len(rows):
        return
    x, point = pairs.points(rows), torch.unique(pairs.point[rows], return_inverse=True)[1]
    flips = minimum_norm(
        pairs.model.net,
        x,
        pairs.label[pairs.point[rows]],
        pairs.target[rows],
        point,
        norm=pairs.query.norm,
        domain=pairs.query.bounds,
        reach=_reach(pairs, x),
        enough=pairs.query.eps or 0.0,
        restarts=restarts,
    )
    shorter = flips.length < pairs.length[rows]
    pairs.length[rows[shorter]], pairs.delta[rows[shorter]] = flips.length[shorter], flips.delta[shorter]


def _draw_in(pairs: Pairs, tried: int, rounds: int) -> None:
    """Shorten the flips of the nearest targets of every point that is not finished."""
    shortest, _ = pairs.shortest()
    length = pairs.length.reshape(len(pairs.x), -1)
    nearest = (length.argsort(dim=1, stable=True).argsort(dim=1) < tried).flatten()
    rows = torch.nonzero(nearest & (shortest > (pairs.query.eps or 0.0))[pairs.point])[:, 0]
    rows = rows[torch.isin(pairs.point[rows], pairs.point[pairs.open()])]
    if not len(rows):
        return
    net, x = pairs.margins(rows), pairs.points(rows)
    starts: list[Start] = [AlongEach(pairs.delta[rows].unsqueeze(0))]
    if isinstance(net, NeuronMargins):
        starts.append(AlongEach(net.strong_directions()))
    if x.shape[1] in FAN:
        starts.append(Along(fan(x.shape[1])))
    flips = minimal_radius(
        net,
        x,
        torch.ones(len(x)).double(),
        starts=starts,
        upper=_reach(pairs, x),
        norm=pairs.query.norm,
        rounds=rounds,
        domain=pairs.query.bounds,
    )
    shorter = flips.radius < pairs.length[rows]
    pairs.length[rows[shorter]], pairs.delta[rows[shorter]] = flips.radius[shorter], flips.delta[shorter]


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
    everywhere = (AtRandom(RAYS, generator_for("rays", 0)),) if dim <= FEW_DIMENSIONS else ()
    return (*structured_starts(net), *everywhere)


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
