"""What the lemmas behind Theorem 3.1 say of one run: measured ÷ bound, and how near their sharp laws are."""

from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data import NoisySample
from featureprism.geometry import unit_rows
from featureprism.lab.rows import Row
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
from featureprism.theory import amplification_laws as laws
from featureprism.theory import feature_amplification as theory
from featureprism.training.trajectory import Trajectory

C0 = theory.USABLE_C0
HIGHLY = 0.9  # the cosine from which a neuron counts as highly correlated at the end
CAPTURED = 0.5  # and after one step, where it is 1/√2 at most: gains along both directions are alike


def surpluses(sample: NoisySample) -> Float[Tensor, " 4"]:
    """Right minus flipped labels of each cluster."""
    signs = torch.where(sample.flipped, -1.0, 1.0).double()
    return torch.zeros(4, dtype=torch.float64).index_add(0, sample.data.cluster, signs)


def along(s: Setting, run: Trajectory[TwoLayerNet], sample: NoisySample, leaning: Tensor) -> list[Row]:
    """Lemmas 4.10 and 4.11 at every recorded step."""
    data, rows = sample.data, []
    for time, net in zip(run.times, run.snapshots, strict=True):
        W = net.W.detach()
        cosines = correlations(W, data.centres, leaning)
        crossing = largest_crossing(W, data.centres, leaning)
        rows.append(
            {
                "kind": "step",
                "time": time,
                "correlation": float(cosines.median()),
                "least_correlation": float(cosines.min()) / theory.correlation_bound(C0),
                "aligned": float(aligned(W, data, leaning).double().mean()),
                "crossing": crossing,
                "over_crossing_bound": crossing / theory.crossing_bound(s),
            }
        )
    return rows


def captured(
    W: Float[Tensor, "h d"], centres: Float[Tensor, "4 d"], leaning: Bool[Tensor, "4 h"]
) -> Bool[Tensor, "4 h"]:
    """Neurons of J that are highly correlated with their centre, at the weights after one step."""
    return leaning & (centres @ unit_rows(W).T >= CAPTURED)


def growing(run: Trajectory[TwoLayerNet], neurons: Bool[Tensor, "4 h"]) -> float:
    """Share of the neurons whose norm increases at every step after the first."""
    norms = torch.stack([torch.linalg.vector_norm(net.W.detach(), dim=1) for net in run.snapshots[1:]])
    return float((norms.diff(dim=0) > 0).all(dim=0)[neurons.any(dim=0)].double().mean())


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
        "leaning": float(sizes.min()),
        "leaning_law": float(sizes.mean()) / laws.leaning_share(C0),
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
    """The remainder ζ1 of the expansion (28) against what independent noise would sum to."""
    points = torch.linalg.vector_norm(first_step(W, a, sample.data, s.step_size).point_noise, dim=1)
    independent = s.step_size / sqrt(s.width) / 2 * s.sigma * sqrt(s.dim / (2 * s.points))
    return {"remainder_law": float(points.median()) / independent}


def of_end(s: Setting, net: TwoLayerNet, sample: NoisySample, leaning: Tensor) -> Row:
    """Lemma 4.9: both sides of the margin of the subnetwork J ÷ 1/C₃; margins and norm beside their laws."""
    data, inside = sample.data, leaning.any(dim=0).to(torch.float64)
    W, a = net.W.detach(), net.a.detach()
    margin = sample.clean * (torch.relu(data.x @ W.T) @ (a * inside)) / theory.margin_bound(C0)
    surplus = surpluses(sample)
    law = laws.margins(s, surplus, surplus[list(OPPOSITE)])
    centres = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=W.dtype) * net(data.centres).detach()
    return {
        "clean_margin": float(margin[~sample.flipped].min()),
        "noisy_margin": float(margin[sample.flipped].min()) if bool(sample.flipped.any()) else None,
        "margin_law": float(centres.mean() / law.mean()),
        "norm_law": float(torch.linalg.matrix_norm(W)) / laws.weight_norm(s),
    }


def of_features(
    run: Trajectory[TwoLayerNet], centres: Float[Tensor, "4 d"], leaning: Bool[Tensor, "4 h"]
) -> Row:
    """Section 1 on captured neurons: their norms, and the largest |cos| with the other direction at T; Section 3 on all neurons."""
    W, neurons = run.last.W.detach(), captured(run.snapshots[1].W.detach(), centres, leaning)
    return {
        "captured": float(neurons.sum() / leaning.sum()),
        "growing": growing(run, neurons),
        "across": largest_crossing(unit_rows(W), centres, neurons),
        "near_centre": near_centre(W, centres),
    }


def near_centre(W: Float[Tensor, "h d"], centres: Float[Tensor, "4 d"]) -> float:
    """Share of all neurons that are highly correlated with one of the centres."""
    return float(((unit_rows(W) @ centres.T).amax(dim=1) >= HIGHLY).double().mean())
