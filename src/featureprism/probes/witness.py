"""Another data set with the same network: KKT points do not determine the points they were trained on.

Where the network is linear in x (within one pattern of neurons) the KKT conditions see a point only through λ_i, λ_i x_i and its
margin. A support point may be split in two, x_i ± t with λ_i/2 each, as long as t does not change the output or the pattern: any t
that no neuron sees (⟨w_j, t⟩ = 0 for all j) at any length, or else t orthogonal to ∇N(x_i) and to the neurons on their kinks, within
the cell of x_i. Both sets satisfy every condition with the same θ. Source: the splitting of Refael, Smorodinsky, Lindenbaum & Safran,
arXiv 2509.21296.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.geometry import row_norms
from featureprism.networks import TwoLayerNet
from featureprism.probes.kkt import kkt_audit

ROOM = 0.9  # of the way to the nearest kink
UNSEEN = 1e-10  # singular values below this share of the largest count as 0


@dataclass(frozen=True)
class Witness:
    """The other data set; `origin` says which point each of its points came from, `moved` how far, ÷ that point's norm."""

    x: Float[Tensor, "m d"]
    y: Float[Tensor, " m"]
    origin: Int[Tensor, " m"]
    moved: Float[Tensor, " m"]


@torch.no_grad()
def other_data(
    net: TwoLayerNet,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    generator: torch.Generator,
    distance: float = 1.0,
    tolerance: float = 1e-9,
) -> Witness:
    """Another data set with the same KKT point: every support point that can be split moves, as far as its linear region allows.

    Parameters
    ----------
    net : TwoLayerNet
        A KKT point of (x, y) with kinks within `tolerance`, as `kkt_audit` measures.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    generator : torch.Generator
        Source of randomness, see `generator_for`.
    distance : float
        How far points move, as a share of their norm.
    tolerance : float
        Tolerance of the kinks.

    Returns
    -------
    Witness
        The other data set, and the conditions measured on it.

    Raises
    ------
    ValueError
        If no point can move: there the KKT conditions determine the points locally.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample_balanced(clusters, 2, generator=fp.generator_for('points', 0))
    >>> net = fp.training.max_margin_network(data.x, data.y).net
    >>> other = fp.probes.other_data(net, data.x, data.y, generator=fp.generator_for('split', 0))
    >>> fp.probes.kkt_audit(net, other.x, other.y).stationarity < 1e-6
    True
    """
    if not distance > 0:
        raise ValueError(f"The distance must be positive, got {distance}.")
    x, y = x.double(), y.double()
    support = torch.nonzero(kkt_audit(net, x, y, tolerance=tolerance).support)[:, 0]
    drawn = torch.randn(len(support), x.shape[1], generator=generator, dtype=torch.float64)
    W = net.W.detach().double()
    free = _without(drawn, W)
    if float(row_norms(free).min()) > 1e-6 * float(row_norms(drawn).min()):
        steps = distance * row_norms(x[support]).unsqueeze(1) * free / row_norms(free).unsqueeze(1)
    else:
        steps = torch.stack(
            [_in_cell(net, x[i], t, distance, tolerance) for i, t in zip(support, drawn, strict=True)]
        )
    can_move = row_norms(steps) > 0
    if not bool(can_move.any()):
        raise ValueError(
            "No support point can move without changing its output or the neurons it turns on: the KKT conditions determine the "
            "points locally."
        )
    return _split(x, y, support[can_move], steps[can_move])


def _split(x: Tensor, y: Tensor, chosen: Tensor, steps: Tensor) -> Witness:
    stay = torch.ones(len(y), dtype=torch.bool).index_fill(0, chosen, value=False)
    origin = torch.cat([torch.nonzero(stay)[:, 0], chosen, chosen])
    shift = torch.cat([torch.zeros(int(stay.sum()), x.shape[1], dtype=x.dtype), steps, -steps])
    return Witness(x[origin] + shift, y[origin], origin, row_norms(shift) / row_norms(x[origin]))


def _without(t: Float[Tensor, "m d"], rows: Float[Tensor, "r d"]) -> Float[Tensor, "m d"]:
    """What is left of the vectors when their part in the span of the rows is taken out."""
    if not len(rows):
        return t
    _, size, directions = torch.linalg.svd(rows, full_matrices=False)
    basis = directions[size > UNSEEN * size[0]]
    for _ in range(2):  # the second time removes what rounding left
        t = t - (t @ basis.T) @ basis
    return t


def _in_cell(net: TwoLayerNet, x: Tensor, t: Tensor, distance: float, tolerance: float) -> Tensor:
    """A step along which output and pattern stay: orthogonal to the gradient and to the neurons on their kinks; 0 if there is none."""
    W, v = net.W.detach().double(), net.a.detach().double()
    z = W @ x + (0 if net.b is None else net.b.detach().double())
    slack = tolerance * row_norms(W) * float(torch.linalg.vector_norm(x) + 1)
    kink = z.abs() <= slack
    gradient = (v * (z > slack)) @ W
    step = _without(t.unsqueeze(0), torch.cat([gradient.unsqueeze(0), W[kink]]))[0]
    size = float(torch.linalg.vector_norm(step))
    if size <= 1e-6 * float(torch.linalg.vector_norm(t)):
        return torch.zeros_like(step)
    unit = step / size
    reach = (z.abs() / (W @ unit).abs().clamp_min(1e-300))[~kink]
    longest = distance * float(torch.linalg.vector_norm(x))
    return min(longest, ROOM * float(reach.min())) * unit if len(reach) else longest * unit
