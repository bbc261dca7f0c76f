"""What the lemmas behind Theorem 3.1 say of one run, as measured ÷ bound."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data import NoisySample
from featureprism.geometry import unit_rows
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_amplification import laws, theory
from featureprism.papers.feature_amplification.setting import NoisyXor
from featureprism.probes.amplification import (
    OPPOSITE,
    aligned,
    correlations,
    edges,
    largest_crossing,
    leaning_neurons,
)
from featureprism.training.trajectory import Trajectory

C0 = theory.C0
HIGH = 0.9  # the cosine from which a neuron counts as highly correlated at the end
CAPTURED = 0.5  # and after one step, where it is 1/√2 at most: gains along both directions are alike


def surpluses(sample: NoisySample) -> Float[Tensor, " 4"]:
    """Right minus flipped labels of each cluster."""
    signs = torch.where(sample.flipped, -1.0, 1.0).double()
    return torch.zeros(4, dtype=torch.float64).index_add(0, sample.data.cluster, signs)


def each_step(s: NoisyXor, run: Trajectory[TwoLayerNet], sample: NoisySample, leaning: Tensor) -> list[Row]:
    """Lemmas 4.10 and 4.11 at every recorded step."""
    data, rows = sample.data, []
    for time, net in zip(run.times, run.snapshots, strict=True):
        W = net.W.detach()
        cosines = correlations(W, data.centres, leaning)
        rows.append(
            {
                "kind": "step",
                "time": time,
                "correlation": float(cosines.median()),
                "least_correlation": float(cosines.min()) / theory.correlation_bound(C0),
                "aligned": float(aligned(W, data, leaning).double().mean()),
                "over_crossing_bound": largest_crossing(W, data.centres, leaning) / theory.crossing_bound(s),
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


def of_start(W: Tensor, a: Tensor, sample: NoisySample) -> Row:
    """Lemma 4.2 for each μ, and Lemma 4.4 for every neuron that leans to a μ, whatever its vote."""
    data = sample.data
    sizes = leaning_neurons(W, a, data.centres, C0).sum(dim=1) / (len(a) / 4)
    leaning = data.centres @ unit_rows(W).T >= 1 / (3 * C0 * W.shape[1] ** 0.5)
    least = float(edges(W, data, ~sample.flipped, leaning).min())
    return {"leaning": float(sizes.min()), "least_edge": least / theory.edge_bound(len(data.x), C0)}


def of_end(s: NoisyXor, net: TwoLayerNet, sample: NoisySample, leaning: Tensor) -> Row:
    """Lemma 4.9: the least margin of the subnetwork J under clean labels ÷ 1/C₃, and margins of the centres ÷ their law."""
    data, inside = sample.data, leaning.any(dim=0).to(torch.float64)
    W, a = net.W.detach(), net.a.detach()
    margin = sample.clean * (torch.relu(data.x @ W.T) @ (a * inside)) / theory.margin_bound(C0)
    surplus = surpluses(sample)
    law = laws.margins(s, surplus, surplus[list(OPPOSITE)])
    centres = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=W.dtype) * net(data.centres).detach()
    return {"margin": float(margin.min()), "margin_law": float(centres.mean() / law.mean())}


def of_features(
    run: Trajectory[TwoLayerNet], centres: Float[Tensor, "4 d"], leaning: Bool[Tensor, "4 h"]
) -> Row:
    """Section 1 on captured neurons, and Section 3 on all neurons."""
    neurons = captured(run.snapshots[1].W.detach(), centres, leaning)
    return {
        "captured": float(neurons.sum() / leaning.sum()),
        "growing": growing(run, neurons),
        "near_centre": near_centre(run.last.W.detach(), centres),
    }


def near_centre(W: Float[Tensor, "h d"], centres: Float[Tensor, "4 d"]) -> float:
    """Share of all neurons that are highly correlated with one of the centres."""
    return float(((unit_rows(W) @ centres.T).amax(dim=1) >= HIGH).double().mean())
