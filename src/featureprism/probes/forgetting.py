"""One ascent step that forgets a training point, measured by the KKT conditions of the points that stay.

At a KKT point θ = Σ_i λ_i y_i ∇N(x_i), so gradient ascent on the loss of point r, with the step size that makes it λ_r y_r ∇N(x_r),
takes exactly this point's part out of θ. What is left is an (ε, δ)-approximate KKT point of the other points when gradients hardly
change by it: ‖θ - Σ λ_i y_i ∇N(x_i)‖ ≤ ε and λ_i (y_i N(x_i) - 1) ≤ δ at least margin 1. Source: Melamed, Yehudai & Vardi,
arXiv 2510.14844, which trains the first layer; here all parameters move.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.networks import TwoLayerNet
from featureprism.probes.kkt import KKTAudit, kkt_audit, neuron_activity


@dataclass(frozen=True)
class Forgotten:
    """The network after the step, and how close it and the old one are to a KKT point of the points that stay.

    `multiplier` is λ_r of the old network at least margin 1, `share` the step's length ÷ ‖θ‖, `margin` the forgotten point's margin
    after the step and `least` the least of the others (1 or more before). `after` is None where the step turns one of the others.
    """

    net: TwoLayerNet
    index: int
    multiplier: float
    share: float
    margin: float
    least: float
    before: KKTAudit
    after: KKTAudit | None

    def as_row(self) -> dict[str, Any]:
        """The numbers as a flat row; ε and δ of the old network are those of doing nothing."""
        epsilon, delta = approximation(self.before)
        found = (None, None) if self.after is None else approximation(self.after)
        return {
            "forgotten": self.index,
            "forgotten_multiplier": self.multiplier,
            "forgotten_share": self.share,
            "forgotten_margin": self.margin,
            "forgotten_least": self.least,
            "epsilon_before": epsilon,
            "delta_before": delta,
            "epsilon_after": found[0],
            "delta_after": found[1],
        }


def approximation(audit: KKTAudit) -> tuple[float, float]:
    """(ε, δ) = (‖θ - Σ λ_i y_i ∇N(x_i)‖, max_i λ_i (y_i N(x_i) - 1)) at least margin 1, where ‖θ‖² is 1 ÷ the normalised margin."""
    total = float(audit.multipliers.sum())
    return audit.stationarity / audit.normalised_margin**0.5, audit.slackness * total


@torch.no_grad()
def forget(
    net: TwoLayerNet,
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    index: int,
    *,
    tolerance: float = 1e-3,
) -> Forgotten:
    """Take one ascent step on a training point, and audit the network before and after on the other points.

    A point with multiplier 0 supports nothing: the step is 0, and the network was a KKT point of the others before.

    Parameters
    ----------
    net : TwoLayerNet
        The network.
    x : tensor (n, d)
        Points.
    y : tensor (n,)
        Labels -1 or +1.
    index : int
        The point to forget, from 0.
    tolerance : float
        See `kkt_audit`.

    Returns
    -------
    Forgotten
        The network after the step, and the audits of both.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample_balanced(clusters, 2, generator=fp.generator_for('points', 0))
    >>> net = fp.training.max_margin_network(data.x, data.y).net
    >>> type(fp.probes.forget(net, data.x, data.y, 0)).__name__
    'Forgotten'
    """
    if not 0 <= index < len(y):
        raise ValueError(f"There is no point {index}: points are numbered from 0 to {len(y) - 1}.")
    if len(y) < 2:
        raise ValueError("Forgetting the only point leaves nothing to measure on; give at least two points.")
    x, y = x.double(), y.double()
    audit = kkt_audit(net, x, y, tolerance=tolerance)
    stepped, share = _step(net, x, y, index, audit)
    rest = torch.arange(len(y)) != index
    margins = y * stepped(x)
    least = float(margins[rest].min())
    return Forgotten(
        net=stepped,
        index=index,
        multiplier=float(audit.multipliers[index]),
        share=share,
        margin=float(margins[index]),
        least=least,
        before=kkt_audit(net, x[rest], y[rest], tolerance=tolerance),
        after=kkt_audit(stepped, x[rest], y[rest], tolerance=tolerance) if least > 0 else None,
    )


def _step(net: TwoLayerNet, x: Tensor, y: Tensor, index: int, audit: KKTAudit) -> tuple[TwoLayerNet, float]:
    """θ - λ_r y_r ∇N(x_r) at least margin 1, kinks as the audit has them, and ‖step‖/‖θ‖."""
    root = float((y * net(x)).min()) ** 0.5
    W, v = net.W.double() / root, net.a.double() / root
    b = torch.zeros_like(v) if net.b is None else net.b.double() / root
    weight = float(audit.multipliers[index] * y[index])
    response = (W @ x[index] + b).clamp_min(0)
    slope = weight * v * neuron_activity(net, x, audit)[index]
    steps = (slope.unsqueeze(1) * x[index], weight * response, slope if net.b is not None else 0 * slope)
    parts = [part - step for part, step in zip((W, v, b), steps, strict=True)]
    moved = sum(float((step**2).sum()) for step in steps) * audit.normalised_margin
    return TwoLayerNet(*(parts if net.b is not None else parts[:2]), activation=net.activation), moved**0.5
