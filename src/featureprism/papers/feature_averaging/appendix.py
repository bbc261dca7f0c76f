"""Appendices B and C: what their lemmas say of coefficients and margins, with the printed constants and sharp."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES
from featureprism.lab.rows import Row, Values
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import premise_ratios
from featureprism.papers.feature_averaging.margins import spread_of
from featureprism.papers.feature_averaging.setting import (
    OF_APPENDIX_B,
    OF_APPENDIX_C,
    Baseline,
    k_class_start,
    problem,
    summary,
    two_class_start,
)
from featureprism.probes.decomposition import Decomposition, from_updates
from featureprism.training import first_layer_descent


def two_class_quantities(net: TwoLayerNet, parts: Decomposition, data: Dataset, labels: Tensor) -> Row:
    """The quantities that Lemmas B.7 and B.10 to B.24 bound, each as its most extreme value."""
    assert net.b is not None
    W, signs = net.W.detach(), torch.sign(net.a.detach())
    own_points, own_clusters = signs.unsqueeze(1) == data.y, signs.unsqueeze(1) == labels  # (h, n), (h, k)
    at_point = parts.features[:, data.cluster]  # λ_{r, c(i)}
    z = W @ data.x.T
    sums = torch.where(own_points, at_point + parts.noise, 0).sum(dim=0) / own_points.sum(dim=0)  # q̂
    with torch.no_grad():
        margin = data.y * net(data.x)
    xi = data.x - data.centres[data.cluster]
    noise, feature = parts.noise[own_points], parts.features[own_clusters]
    scale = len(data.x) / len(labels)  # n/k
    margins = margin.expand_as(own_points)[own_points]
    slopes = torch.nn.functional.logsigmoid(-margins)
    hats, exact = spread_of(sums, data), spread_of(margin, data)
    return {
        **{name: exact[name] for name in ("gap", "derivative_ratio", "cluster_derivative_ratio", "margin")},
        "sum_gap": hats["gap"],
        "cluster_sum_gap": hats["cluster_gap"],
        "least_noise": float(noise.min()),
        "most_noise": float(noise.max()),
        "noise_ratio": float(noise.max() / noise.min()),
        "opposite_feature": float(parts.features[~own_clusters].abs().max()),
        "opposite_noise": float(parts.noise[~own_points].abs().max()),
        "largest_bias": float(net.b.detach().abs().max()),
        "feature_error": float((W @ data.centres.T - parts.features).abs().max()),
        "noise_error": float((W @ xi.T - parts.noise).abs().max()),
        "point_error": float((z - at_point - parts.noise).abs().max()),
        "sum_error": float((margin - sums).abs().max()),
        "margin_above": float((margins - scale / 2 * noise).min()),
        "margin_below": float((margins - 2 * scale * noise).max()),
        "slope_above": float((slopes + 2 * scale * noise).min()),
        "slope_below": float((slopes + scale / 2 * noise).max()),
        "least_feature": float(feature.min()),
        "most_feature": float(feature.max()),
        "feature_ratio": float(feature.max() / feature.min()),
        "noise_share": float(margins.mean() / ((scale + 1) * noise.mean())),
        "lambda": float(feature.mean()),
    }


def k_class_quantities(logits: Tensor, parts: Decomposition, data: Dataset, group: int) -> Row:
    """Own logits, λ and σ, the largest logit of another class (Lemma C.17 wants at most ε), and the derivatives of Lemmas C.18, C.21.

    The ratio is of the points with the least and the largest own logit, beside (k-1+e^q)/(k-1+e^q').
    """
    own = torch.nn.functional.one_hot(data.cluster, logits.shape[1]).bool()
    feature = parts.features.unflatten(0, (-1, group)).mean(dim=1).diagonal()
    q, others = logits[own], logits.shape[1] - 1
    slopes = 1 - logits.softmax(dim=1)[own]
    high, low = int(q.argmax()), int(q.argmin())
    noise = parts.noise.unflatten(0, (-1, group)).amax(dim=1).T[own]  # of the own neurons
    scale = len(data.x) / (others + 1)  # n/k
    return {
        "k_class_most_noise": float(noise.max()),
        "k_class_slope_below": float((slopes.log() + scale / 2 * noise).max()),
        "k_class_margin": float(logits[own].mean()),
        "k_class_lambda": float(feature.mean()),
        "k_class_ratio": float(slopes[low] / slopes[high]),
        "k_class_ratio_law": float((others + q[high].exp()) / (others + q[low].exp())),
        "largest_other_logit": float(logits[~own].max()),
        "mean_other_logit": float(logits[~own].mean()),
    }


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """Both decompositions after training, the statements of Appendix B, and the sharp laws beside them."""
    data = problem(s, seed)
    train, labels = data.train, data.clusters.labels
    options = {"step_size": s.step_size, "steps": s.steps, "representation": "gram"}
    start = two_class_start(s, seed)
    own = torch.sign(start.a.detach()) == train.y.unsqueeze(1)
    run = first_layer_descent(
        start, train.x, train.y, watch=lambda z: float((z[0] >= 0)[own].double().mean()), **options
    )
    context.progress(0.5)
    parts = from_updates(run.probes["slopes"][-1][0], train, s.step_size)
    found = two_class_quantities(run.last, parts, train, labels)
    found["own_active"] = min(run.probes["watched"][1:])  # Lemma B.7 (7) speaks of every t ≥ 1
    groups = torch.arange(s.num_clusters).repeat_interleave(s.group) == train.cluster.unsqueeze(1)
    fine = first_layer_descent(
        k_class_start(s, seed),
        train.x,
        train.cluster,
        watch=lambda z: float((z[0] >= 0)[groups].double().mean()),
        **options,
    )
    found["k_class_active"] = fine.probes["watched"][1]
    with torch.no_grad():
        logits = fine.last(train.x)
    fine_parts = from_updates(fine.probes["slopes"][-1][0], train, s.step_size)
    found |= k_class_quantities(logits, fine_parts, train, s.group)
    k, n = s.num_clusters, s.points
    two, many = (theory.growth_rate(s, num) for num in (s.per_class, s.group))
    row = {
        "kind": "summary",
        **found,
        "clusters": k,
        "noise_bound": 2 * k / n * math.log(s.steps + 1),
        "lambda_law": theory.own_growth(theory.two_class_margin(two, s.steps), k, n),
        "k_class_lambda_law": theory.own_growth(theory.k_class_margin(many, s.steps, k), k, n),
        "spread_law": theory.margin_spread(found["lambda"], s.positive, s.dim),
    }
    statements = theory.lemma_b(s, s.steps, found)
    times = [*theory.training_time(s, s.steps), *theory.training_time(s, s.steps, "4.7")]
    premises = [*statements, *theory.premises(s, train.centres), *times]
    return [row, *(premise.as_row() for premise in premises)]


def _largest_memorised(rows: Rows) -> Values:
    """The largest σ of an own point ÷ (2k/n) ln(T+1)."""
    statement = rows.of("premise", id="lemma-b-7.1-most")
    return statement.per_seed("measured") / statement.per_seed("required")


CLAIMS = (
    Claim(
        "memorised",
        source="Lemma B.7 (1), from above",
        says="The coefficient σ of a point's noise, in a neuron of its class, is at most (2k/n) ln(t+1).",
        quantity="largest σ of a training point ÷ (2k/n) ln(t+1), at the end of training",
        formula=r"\sigma_{y_i,r,i}^{(t)} \le \tfrac{2k}{n}\ln(t+1)",
        bound=at_most(1.0),
        because="the constant of the lemma, read as it stands in the paper",
        value=_largest_memorised,
        aggregate="worst",
        premises=OF_APPENDIX_B,
    ),
    Claim(
        "derivatives",
        source="Lemma B.21, from above",
        says="The derivative of the loss at a training point is at most 2 exp(-(n/2k)σ), σ the coefficient of the point's noise.",
        quantity="largest -yℓ'·exp((n/2k)σ), at the end of training",
        formula=r"-y_i\ell'_i \le 2\exp\bigl(-\tfrac{n}{2k}\sigma_{y_i,r,i}\bigr)",
        bound=at_most(2.0),
        because="the constant of the lemma, read as it stands in the paper",
        value=lambda rows: np.exp(summary("slope_below")(rows)),
        aggregate="worst",
        premises=OF_APPENDIX_B,
        note=lambda rows: (
            "from below, exp(-(2n/k)σ)/3 holds by a factor of"
            f" {3 * np.exp(summary('slope_above')(rows)).mean():.0f}"
        ),
    ),
    Claim(
        "growth",
        source="Lemma B.23, sharp",
        says="With two labels, the coefficient λ of a feature of the neuron's class is q/(1+k/n), where the margin q follows q +"
        " e^q = 1 + Ct.",
        quantity="mean coefficient of the features of a neuron's class ÷ q/(1+k/n)",
        formula=r"\lambda = q/(1+k/n),\qquad q + e^q = 1 + Ct",
        bound=between(0.97, 1.03),
        because="three percent; the lemma's bounds, ln(ηt)/4 and 4 ln(t+1), are a factor of 20 apart here",
        value=lambda rows: summary("lambda")(rows) / summary("lambda_law")(rows),
        origin="featureprism",
    ),
    Claim(
        "k-class-active",
        source="Lemma C.5",
        says="With a label for each cluster, every training point activates all neurons of its cluster after one step.",
        quantity="share of active pairs of a point and a neuron of its cluster at t = 1",
        formula=r"S_{i,c(i)}^{(1)} = [h]",
        bound=at_least(1.0),
        because="no pair may be an exception; the proof needs 2σ_w d ≤ ηΔ/h, which Assumption 4.3 does not give",
        value=summary("k_class_active"),
        aggregate="worst",
        premises=OF_APPENDIX_C,
    ),
    Claim(
        "k-class-memorised",
        source="Lemma C.10 (1), from above",
        says="With a label for each cluster, the coefficient σ of a point's noise, in a neuron of its cluster, is at most"
        " (2k/n) ln(t+1).",
        quantity="largest σ of a training point ÷ (2k/n) ln(t+1), at the end of training",
        formula=r"\sigma_{c(i),r,i}^{(t)} \le \tfrac{2k}{n}\ln(t+1)",
        bound=at_most(1.0),
        because="the constant of the lemma, read as it stands in the paper",
        value=lambda rows: summary("k_class_most_noise")(rows) / summary("noise_bound")(rows),
        aggregate="worst",
        premises=OF_APPENDIX_C,
    ),
    Claim(
        "k-class-derivatives",
        source="Lemma C.21, from above",
        says="With a label for each cluster, the derivative of the loss in the true logit of a training point is at most"
        " 2k exp(-(n/2k)σ), σ the coefficient of the point's noise.",
        quantity="largest -ℓ'·exp((n/2k)σ)/(2k), at the end of training",
        formula=r"-\ell'_{i,c(i)} \le 2k\exp\bigl(-\tfrac{n}{2k}\sigma_{c(i),r,i}\bigr)",
        bound=at_most(1.0),
        because="the constant of the lemma, read as it stands in the paper",
        value=lambda rows: np.exp(summary("k_class_slope_below")(rows)) / (2 * summary("clusters")(rows)),
        aggregate="worst",
        premises=OF_APPENDIX_C,
    ),
    Claim(
        "k-class-ratio",
        source="Lemma C.18, sharp",
        says="With a label for each cluster, the derivatives of the loss at two points with true logits q and q' have the ratio"
        " (k-1+e^q)/(k-1+e^q').",
        quantity="ratio of the derivatives at the least and the largest true logit ÷ that formula",
        formula=r"\ell'_j/\ell'_i = \frac{k-1+e^{q_i}}{k-1+e^{q_j}}",
        bound=between(0.9, 1.1),
        because="a tenth; the formula takes all other logits to be 0",
        value=lambda rows: summary("k_class_ratio")(rows) / summary("k_class_ratio_law")(rows),
        origin="featureprism",
        note=lambda rows: f"the ratio itself is {summary('k_class_ratio')(rows).mean():.2f}: not 1 + o(1)",
    ),
    Claim(
        "other-logits",
        source="Lemma C.17, sharp",
        says="With a label for each cluster, the logits of all other labels stay small on the training points.",
        quantity="largest logit of another label ÷ mean logit of the true label",
        bound=between(0.0, 0.1),
        because="a tenth of the true logit; the lemma's ε is 58 at this size",
        value=lambda rows: summary("largest_other_logit")(rows) / summary("k_class_margin")(rows),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """Every statement of Appendix B and every premise as measured ÷ required."""
    from featureprism.lab.style import COLOURS, panels

    height = 0.7 + 0.22 * max(1, len(rows.of("premise").distinct("id")))
    figure, (axes,) = panels(1, width=4.6, height=height)
    premise_ratios(axes, rows, holds=COLOURS[2], fails=COLOURS[1])
    return figure


APPENDIX = Experiment(
    id="feature-averaging/appendix",
    source="Li et al. 2025, Appendices B and C",
    title="The lemmas of the appendix: with the printed constants, and sharp",
    scales={scale: [Baseline(steps=400)] for scale in SCALES},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Every quantity that Lemmas B.7 and B.10 to B.24 bound, measured after training and set beside its printed bound (activations:"
        " at every step from the first). Most bounds are multiples of ε = max{2 ln(n/k)/(√(n/k) - ln(n/k)), k²Δ/d, k²/n}, which is 58"
        " at this size, and the lower bounds of Lemmas B.7 (1) and B.23 are negative until ηT = 1: they say nothing, and are no claims."
        " The rest are, Lemma B.7 (7) as `decomposition.active`. Beside them the laws that the quantities follow, with two labels and"
        " with k. Lemma C.6, Corollary C.8 and Lemma C.18 with its ε are identities: tests of the code. Lemma C.19, whose factor is"
        " 1 ± 200k²ε, and Lemma C.20, with its ±2ε, say nothing at this size; Proposition C.3 asks for n/(3k³h²) = 0.3 points."
    ),
)
