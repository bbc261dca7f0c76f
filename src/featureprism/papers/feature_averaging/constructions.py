"""Proposition 4.8 and Appendix D: networks that descent could have found."""

from dataclasses import replace
from math import sqrt

import torch

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, at_least, between
from featureprism.networks import (
    BinaryReadout,
    averaging_classifier,
    decoupled_classifier,
    shared_features_net,
)
from featureprism.papers.feature_averaging.setting import (
    Setting,
    attack_facts,
    bracket,
    ours,
    problem,
    summary,
    tested_on,
)
from featureprism.records import Row
from featureprism.theory import feature_averaging as theory

WITHIN = 2.0  # of √(d/k), where shared features must be broken: below √(d/2), where nothing is robust, from k = 9 on


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """The constructions on the same test points: f_FA, f_dec, and the k-class network that shares features."""
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
                "radius": float(radii.attacked.median()) / unit,
                "certified_radius": float(radii.certified.median()) / unit,
                "attacked_within": float(radii.accuracy(radius)[1][0]),
            }
        )
        context.progress((index + 1) / len(nets))
    return rows


CLAIMS = (
    Claim(
        "breaks",
        "Proposition 4.8",
        "the network that shares features is nowhere robust at a radius of order √(d/k): share of points that an attack breaks at"
        f" {WITHIN:g} √(d/k)",
        lambda rows: 1 - summary("attacked_within", network="shared")(rows),
        at_least(0.95),
        note="the radius of the proof, 3(1+c)√(d/k), is beyond √(d/2), where no classifier is robust, up to k = 72",
    ),
    ours(
        "radius",
        "Proposition 4.8, sharp",
        "it breaks far earlier: 50 % radius ÷ 2√(d/(k+6))",
        summary("radius", network="shared"),
        between(0.9, 1.05),
    ),
    ours(
        "averaging",
        "Theorems D.1, D.2, sharp",
        "f_FA breaks at √(d/k): 50 % radius ÷ √(d/k)",
        summary("radius", network="averaging"),
        between(0.95, 1.05),
    ),
    ours(
        "decoupled-radius",
        "Theorem D.3, sharp",
        "its own neuron dies at √d/2: 50 % radius ÷ (√d/2)",
        lambda rows: 2 * summary("radius", network="decoupled")(rows),
        between(0.97, 1.03),
        note="y f ≤ 0 counts as flipped for both labels; with sign(0) = -1 negative points hold to √(d/2)",
    ),
)

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
    about=(
        "Three networks written down: f_FA averages, f_dec keeps one neuron for each cluster, a ten-class network fits the fine labels"
        " perfectly while sharing features within each class. Only descent's own choice makes fine labels robust."
    ),
)
