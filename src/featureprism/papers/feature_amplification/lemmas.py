"""What the lemmas behind Theorem 3.1 say of one run: how often their bounds are broken, and how near their sharp laws are."""

from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data import NoisySample
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_amplification.setting import Setting
from featureprism.probes.amplification import (
    OPPOSITE,
    aligned,
    correlations,
    edges,
    first_step,
    largest_crossing,
    leaning_neurons,
)
from featureprism.records import Row, Trajectory
from featureprism.theory import amplification_laws as laws
from featureprism.theory import feature_amplification as theory

C0 = theory.USABLE_C0


def surpluses(sample: NoisySample) -> Float[Tensor, " 4"]:
    """Right minus flipped labels of each cluster."""
    signs = torch.where(sample.flipped, -1.0, 1.0).double()
    return torch.zeros(4, dtype=torch.float64).index_add(0, sample.data.cluster, signs)


def along(s: Setting, run: Trajectory[TwoLayerNet], sample: NoisySample, leaning: Tensor) -> list[Row]:
    """Lemmas 4.10, 4.11 and A.1 at every recorded step."""
    data, rows = sample.data, []
    for time, net in zip(run.times, run.snapshots, strict=True):
        W = net.W.detach()
        cosines = correlations(W, data.centres, leaning)
        rows.append(
            {
                "kind": "step",
                "time": time,
                "correlation": float(cosines.median()),
                "weak": int((cosines < theory.correlation_bound(C0)).sum()),
                "aligned": float(aligned(W, data, leaning).double().mean()),
                "crossing": largest_crossing(W, data.centres, leaning),
                "crossing_bound": theory.crossing_bound(s),
                "norm": float(torch.linalg.matrix_norm(W)),
                "norm_bound": theory.norm_bound(s, int(time)),
            }
        )
    return rows


def of_start(W: Tensor, a: Tensor, sample: NoisySample, sigma: float) -> Row:
    """Lemma 4.2 for each μ, and Lemma 4.4 for every neuron that leans to a μ, whatever its vote."""
    data, width = sample.data, len(a)
    sizes = leaning_neurons(W, a, data.centres, C0).sum(dim=1) / (width / 4)
    own_vote = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=W.dtype).unsqueeze(1)
    every = torch.cat(
        [
            leaning_neurons(W, vote.expand(width), data.centres, C0) & (own_vote == vote)
            for vote in own_vote[[0, 2]]
        ]
    )
    every = every[:4] | every[4:]
    found = edges(W, data, ~sample.flipped, every)
    mean, std = _edge_law(W, sample, every, sigma)
    open_ones = std > 1  # neurons that are active on part of the points only
    scores = ((found - mean) / std)[open_ones]
    return {
        "leaning": float(sizes.min()) / theory.leaning_share(C0),
        "leaning_law": float(sizes.mean()) / laws.leaning_share(C0),
        "no_edge": int((found < theory.edge_bound(len(data.x), C0)).sum()),
        "least_edge": float(found.min()) / theory.edge_bound(len(data.x), C0),
        "edge_law": float(found.mean() / mean.mean()),
        "edge_score": float((scores**2).mean().sqrt()) if len(scores) else None,
    }


def _edge_law(
    W: Tensor, sample: NoisySample, pairs: Bool[Tensor, "4 h"], sigma: float
) -> tuple[Float[Tensor, " p"], Float[Tensor, " p"]]:
    """Mean and standard deviation of the edge of every pair, from its cosine and the clean points of ±μ."""
    clean = torch.bincount(sample.data.cluster[~sample.flipped], minlength=4).double()
    place = torch.nonzero(pairs)[:, 0]
    cosine = correlations(W, sample.data.centres, pairs)
    return laws.edges(cosine, sigma, clean[place], clean[list(OPPOSITE)][place])


def of_first_step(s: Setting, W: Tensor, a: Tensor, sample: NoisySample) -> Row:
    """The remainders of the expansion (28), against their bounds and against what independent noise would sum to."""
    expansion = first_step(W, a, sample.data, s.step_size)
    points, losses = (
        torch.linalg.vector_norm(rest, dim=1) for rest in (expansion.point_noise, expansion.loss_noise)
    )
    independent = s.step_size / sqrt(s.width) / 2 * s.sigma * sqrt(s.dim / (2 * s.points))
    return {
        "large_remainders": int((points > theory.point_noise_bound(s)).sum())
        + int((losses > theory.loss_noise_bound(s)).sum()),
        "remainder_law": float(points.median()) / independent,
    }


def of_end(s: Setting, net: TwoLayerNet, sample: NoisySample, leaning: Tensor) -> Row:
    """Lemma 4.9: both sides of the margin of the subnetwork J, and ‖W‖_F ≤ 1; margins and norm beside their laws."""
    data, inside = sample.data, leaning.any(dim=0).to(torch.float64)
    W, a = net.W.detach(), net.a.detach()
    margin = sample.clean * (torch.relu(data.x @ W.T) @ (a * inside))
    owed = theory.margin_bound(C0)
    surplus = surpluses(sample)
    law = laws.margins(s, surplus, surplus[list(OPPOSITE)])
    centres = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=W.dtype) * net(data.centres).detach()
    return {
        "clean_short": int((margin[~sample.flipped] < owed).sum()),
        "noisy_short": int((margin[sample.flipped] < owed).sum()),
        "large_norm": int(torch.linalg.matrix_norm(W) > 1),
        "least_margin": float(margin.min()) / owed,
        "margin_law": float(centres.mean() / law.mean()),
        "norm_law": float(torch.linalg.matrix_norm(W)) / laws.weight_norm(s),
    }
