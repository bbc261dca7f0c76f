"""Proposition 4.8 and Appendix D: networks that descent could have found."""

from dataclasses import replace
from math import sqrt
from typing import Any

import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import BinaryReadout, averaging_classifier, decoupled_classifier
from featureprism.networks.constructions import shared_features_net
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import mean_of
from featureprism.papers.feature_averaging.setting import (
    Baseline,
    attack_facts,
    bracket,
    problem,
    summary,
    tested_on,
)

WITHIN = 2.0  # of √(d/k), where shared features must be broken: below √(d/2), where nothing is robust, from k = 9 on


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """Three networks on the same test points: f_FA, f_dec, and the k-class network that shares features."""
    data = problem(s, seed)
    d, k, (mu, labels) = s.dim, s.num_clusters, (data.clusters.mu, data.clusters.labels)
    nets = {
        "averaging": (averaging_classifier(mu, labels), theory.critical_radius(d, k)),
        "decoupled": (decoupled_classifier(mu, labels), sqrt(d)),
        "shared": (
            BinaryReadout(shared_features_net(mu, labels), labels),
            theory.shared_features_radius(d, k),
        ),
    }
    radius = torch.tensor([WITHIN * theory.critical_radius(d, k)]).double()
    rows: list[Row] = []
    for index, (name, (net, unit)) in enumerate(nets.items()):
        radii = bracket(net, data.test, gap=0.005)
        rows.append(
            {
                "kind": "summary",
                "network": name,
                **attack_facts(radii),
                "radius": radii.half_radius[1] / unit,
                "certified_radius": radii.half_radius[0] / unit,
                "attacked_within": float(radii.accuracy(radius)[1][0]),
            }
        )
        context.progress((index + 1) / len(nets))
    return rows


CLAIMS = (
    Claim(
        "breaks",
        source="Proposition 4.8",
        says="There is a network that fits a label for each cluster perfectly and is broken everywhere at a radius of order √(d/k).",
        quantity=f"share of test points that an attack breaks within {WITHIN:g} √(d/k)",
        formula=r"f_j(x) = [\langle \mu_j + \textstyle\sum_{l \in J_s} \mu_l,\, x\rangle]_+,\quad"
        r" \mathrm{Acc}_{\text{robust}}(\Omega(\sqrt{d/k})) \le \exp(-\Omega(\log^2 d))",
        bound=at_least(0.95),
        because=f"{WITHIN:g} √(d/k) is below √(d/2), where no classifier is robust; the proof's 3(1+c)√(d/k) is not, up to k = 72",
        value=lambda rows: 1 - summary("attacked_within", network="shared")(rows),
    ),
    Claim(
        "radius",
        source="Proposition 4.8, sharp",
        says="The network that fits a label for each cluster while sharing features within a class breaks at 2√(d/(k+6)).",
        quantity="radius at which an attack breaks half of the test points ÷ 2√(d/(k+6))",
        bound=between(0.9, 1.05),
        because="the best direction against a single pair of clusters has that length",
        value=summary("radius", network="shared"),
        origin="featureprism",
    ),
    Claim(
        "averaging",
        source="Theorems D.1, D.2, sharp",
        says="The averaging classifier breaks at √(d/k).",
        quantity="radius at which an attack breaks half of the test points of f_FA ÷ √(d/k)",
        bound=between(0.95, 1.05),
        because="from a centre Σ y_j μ_j crosses its boundary at exactly √(d/k)",
        value=summary("radius", network="averaging"),
        origin="featureprism",
    ),
    Claim(
        "decoupled-radius",
        source="Theorem D.3, sharp",
        says="The decoupling classifier breaks at √d/2, where the neuron of the point's cluster falls silent.",
        quantity="radius at which an attack breaks half of the test points of f_dec ÷ (√d/2)",
        bound=between(0.97, 1.03),
        because="the bias of every neuron is -d/2; Theorem D.3 proves √d/3",
        value=lambda rows: 2 * summary("radius", network="decoupled")(rows),
        origin="featureprism",
        note="y f ≤ 0 counts as flipped for both labels; with sign(0) = -1 negative points hold to √(d/2)",
    ),
)


def draw(rows: Rows) -> Any:
    """Proven to attacked 50 % radius of the three networks, in units of what is predicted."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=5.0, height=2.6)
    units = {
        "averaging": "f_FA ÷ √(d/k)",
        "decoupled": "f_dec ÷ √d",
        "shared": "shared features ÷ 2√(d/(k+6))",
    }
    for position, (name, text) in enumerate(units.items()):
        own = rows.of("summary", network=name)
        low, high = mean_of(own, "certified_radius"), mean_of(own, "radius")
        axes.plot([low, high], [position, position], color=COLOURS[position], linewidth=5)
        axes.plot(high, position, "|", color="black", markersize=12)
        axes.text(-0.02, position, text, ha="right", va="center", fontsize=8)
    guide(axes, 1.0, "predicted")
    axes.set(xlabel="50 % radius: proven to attacked", xlim=(0, 1.15), yticks=[])
    axes.set_ylim(len(units) - 0.4, -0.6)
    return figure


PROPOSITION_4_8 = Experiment(
    id="feature-averaging/proposition-4-8",
    source="Li et al. 2025, Proposition 4.8 and Appendix D",
    title="Fine labels alone do not force robustness: the constructions",
    scales={
        scale: [replace(s, points=1) for s in settings]
        for scale, settings in tested_on(40, 1000, 1000).items()
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Three networks written down: f_FA averages, f_dec keeps one neuron for each cluster, a ten-class network fits the fine labels"
        " perfectly while sharing features within each class. Only descent's own choice makes fine labels robust."
    ),
)
