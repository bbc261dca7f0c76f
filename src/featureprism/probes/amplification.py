"""Random features before and after they are amplified: which neurons lean to which cluster, and how much."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.geometry import unit_rows
from featureprism.models.activations import relu_power

OPPOSITE = (1, 0, 3, 2)  # of +μ1, -μ1, +μ2, -μ2


def leaning_neurons(
    W: Float[Tensor, "h d"], a: Float[Tensor, " h"], centres: Float[Tensor, "4 d"], slack: float
) -> Bool[Tensor, "4 h"]:
    """J_μ: neurons that vote for the label of μ and start with cos(w_j, μ) ≥ 1/(3 C₀ √d). Lemma 4.2; `slack` is C₀."""
    cosine = centres.to(W.dtype) @ unit_rows(W).T
    votes = torch.stack([a > 0, a > 0, a < 0, a < 0])
    return votes & (cosine >= 1 / (3 * slack * W.shape[1] ** 0.5))


def correlations(
    W: Float[Tensor, "h d"], centres: Float[Tensor, "4 d"], leaning: Bool[Tensor, "4 h"]
) -> Float[Tensor, " p"]:
    """cos(w_j, μ) of every leaning pair."""
    return (centres.to(W.dtype) @ unit_rows(W).T)[leaning]


def edges(
    W: Float[Tensor, "h d"], data: Dataset, clean: Bool[Tensor, " n"], leaning: Bool[Tensor, "4 h"]
) -> Float[Tensor, " p"]:
    """Clean points of μ minus clean points of -μ that activate the neuron, for every leaning pair. Lemma 4.4."""
    active = relu_power(data.x @ W.T, 0) * clean.to(W.dtype).unsqueeze(1)  # (n, h)
    counts = torch.stack([active[data.cluster == c].sum(dim=0) for c in range(4)])
    return (counts - counts[list(OPPOSITE)])[leaning]


def aligned(W: Float[Tensor, "h d"], data: Dataset, leaning: Bool[Tensor, "4 h"]) -> Bool[Tensor, " p"]:
    """Per leaning pair: active on all points of μ, off on all points of -μ (of which there may be none). Condition 4.7."""
    z = data.x @ W.T
    nothing = torch.full((1, z.shape[1]), torch.inf, dtype=z.dtype)
    highest = torch.stack([torch.cat([z[data.cluster == c], -nothing]).amax(dim=0) for c in range(4)])
    lowest = torch.stack([torch.cat([z[data.cluster == c], nothing]).amin(dim=0) for c in range(4)])
    return ((lowest > 0) & (highest[list(OPPOSITE)] <= 0))[leaning]


def largest_crossing(
    W: Float[Tensor, "h d"], centres: Float[Tensor, "4 d"], leaning: Bool[Tensor, "4 h"]
) -> float:
    """max |⟨w_j, μ2⟩| over neurons that lean to ±μ1, and the other way round. Condition 4.8."""
    inner = (centres.to(W.dtype) @ W.T).abs()
    first, second = leaning[:2].any(dim=0), leaning[2:].any(dim=0)
    values = torch.cat([inner[2][first], inner[0][second]])
    return float(values.max()) if len(values) else 0.0


def feature_changes(
    W: Float[Tensor, "h d"], start: Float[Tensor, "h d"], x: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """‖φ(W x_i) - φ(W⁰ x_i)‖/‖φ(W⁰ x_i)‖ of every point. Proposition 3.2."""
    before, after = relu_power(x @ start.T, 1), relu_power(x @ W.T, 1)
    return torch.linalg.vector_norm(after - before, dim=1) / torch.linalg.vector_norm(before, dim=1)


def count_by_noise(margin: Float[Tensor, " n"], flipped: Bool[Tensor, " n"]) -> tuple[int, int]:
    """(clean points that are wrong, flipped points that are right) under the labels one sees."""
    return int((margin[~flipped] <= 0).sum()), int((margin[flipped] > 0).sum())
