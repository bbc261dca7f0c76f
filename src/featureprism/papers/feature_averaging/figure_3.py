"""Figure 3 on synthetic data: where the classifiers of two labels and of a label for each cluster break."""

from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.lab import Claim, Experiment, Rows, above, at_least, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.classifiers import classifiers, over_critical
from featureprism.papers.feature_averaging.drawing import NETWORKS
from featureprism.papers.feature_averaging.setting import (
    PROVEN_POINTS,
    READOUT_GAP,
    Baseline,
    attack_facts,
    bracket,
    clean_accuracy,
    summary,
    tested_on,
)

CURVE = torch.linspace(0, 1.0, 101, dtype=torch.float64)  # radii in units of √d
BEYOND = 1.2  # where the universal direction is tried, in units of √(d/k)


def universal_accuracy(net, test: Dataset, centres: Tensor, labels: Tensor, norm: float) -> float:
    """Accuracy after moving every point by -y times `norm` along Σ_j y_j μ_j. Proof of Theorem 4.5."""
    direction = labels @ centres
    moved = test.x - test.y.unsqueeze(1) * norm * direction / direction.norm()
    with torch.no_grad():
        return float((test.y * net(moved) > 0).double().mean())


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """Brackets of all classifiers, and the universal direction beside them."""
    data, nets = classifiers(s, seed, context.progress)
    mu, labels, test, root = data.clusters.mu, data.clusters.labels, data.test, s.dim**0.5
    unlearned = theory.opposite_share(1, s.num_clusters, s.points, s.dim, s.num_clusters)
    rows: list[Row] = []
    for name, net in nets.items():
        radii = bracket(net, test)
        clean = clean_accuracy(net, test)
        norm = BEYOND * theory.critical_radius(s.dim, s.num_clusters)
        rows.append(
            {
                "kind": "summary",
                "network": name,
                "least_sum_law": theory.summed_radius(s.dim, s.negative),
                "sum_law": theory.summed_radius(s.dim, s.negative, unlearned),
                "half_radius": radii.half_radius[1],
                "certified_half_radius": radii.half_radius[0],
                "clean_accuracy": clean,
                "lost_to_universal": clean - universal_accuracy(net, test, mu, labels, norm),
                **attack_facts(radii),
            }
        )
        certified, attacked = radii.accuracy(CURVE * root)
        rows += [
            {"kind": "curve", "network": name, "radius": r, "certified_accuracy": c, "attacked_accuracy": a}
            for r, c, a in zip(CURVE.tolist(), certified.tolist(), attacked.tolist(), strict=True)
        ]
        for r in CURVE[::4].tolist():
            accuracy = universal_accuracy(net, test, mu, labels, r * root)
            rows.append({"kind": "universal", "network": name, "radius": r, "accuracy": accuracy})
        context.progress(0.8)
    return rows


def _trusted(rows: Rows, network: str) -> Rows:
    """The summaries of a network whose attack passed its self-test."""
    return rows.of("summary", network=network, self_test_passed=True)


def _over_best(rows: Rows, network: str) -> Values:
    """The attacked 50 % radius ÷ √(d/2)."""
    trusted = _trusted(rows, network)
    return trusted.per_seed("half_radius") / np.sqrt(trusted.per_seed("dim") / 2)


def _proven_gain(rows: Rows) -> Values:
    """Proven 50 % radius of ten labels ÷ attacked 50 % radius of two."""
    ten, two = _trusted(rows, "ten-class"), _trusted(rows, "two-class")
    return ten.per_seed("certified_half_radius") / two.per_seed("half_radius")


def _proven_share(rows: Rows) -> Values:
    """Proven ÷ attacked 50 % radius of ten labels."""
    ten = _trusted(rows, "ten-class")
    return ten.per_seed("certified_half_radius") / ten.per_seed("half_radius")


def _over_sum_law(rows: Rows) -> Values:
    """Proven 50 % radius of the summed logits ÷ its law."""
    summed = _trusted(rows, "ten-class-sum")
    return summed.per_seed("certified_half_radius") / summed.per_seed("sum_law")


CLAIMS = (
    Claim(
        "proven-gain",
        source="Figure 3",
        says="A network trained with a label for each cluster is more robust than one trained with two labels.",
        quantity="radius proven for half of the test points with ten labels ÷ radius at which an attack breaks half with two",
        bound=above(1.0),
        because="more robust; no attack can undo a gain whose numerator is proven and whose denominator is attacked",
        value=_proven_gain,
        headline=True,
        note="√(d/2) ÷ √(d/k) = 2.24 is the most there is at k = 10",
    ),
    Claim(
        "two-class",
        source="Figure 3, sharp",
        says="Half of the test points of a network trained with two labels are broken at the radius √(d/k).",
        quantity="radius at which an attack breaks half of the test points ÷ √(d/k)",
        formula=r"\delta_{1/2} = \sqrt{d/k}",
        bound=between(0.95, 1.05),
        because="the averaging classifier breaks at √(d/k), with a spread of 1 over points: 6 % of √(d/k) at this size",
        value=lambda rows: over_critical(_trusted(rows, "two-class"), "half_radius"),
        origin="featureprism",
    ),
    Claim(
        "ten-class",
        source="Figure 3, sharp",
        says="A network trained with a label for each cluster is nearly as robust as any classifier can be.",
        quantity="radius at which an attack breaks half of the test points ÷ √(d/2)",
        formula=r"\delta_{1/2} \approx \sqrt{d/2}",
        bound=between(0.92, 1.0),
        because="beyond √(d/2), half the distance of two centres, no classifier is robust",
        value=lambda rows: _over_best(rows, "ten-class"),
        origin="featureprism",
    ),
    Claim(
        "ten-class-proven",
        source="Figure 3, sharp",
        says="The robustness of a network trained with a label for each cluster is proven, not only attacked.",
        quantity="radius up to which half of the test points are proven robust ÷ radius at which an attack breaks half, ten labels",
        bound=at_least(0.97),
        because=f"the proof stops at a gap of {READOUT_GAP:.0%}; a Lipschitz bound alone proves 0.68",
        value=_proven_share,
        origin="featureprism",
    ),
    Claim(
        "max",
        source="beside Figure 3",
        says="Deciding by the largest logit of either class is as robust as adding up the probabilities of each class.",
        quantity="radius at which an attack breaks half of the test points of the decision by the largest logit ÷ √(d/2)",
        bound=between(0.92, 1.0),
        because="the radius is expected where added probabilities have it",
        value=lambda rows: _over_best(rows, "ten-class-max"),
        origin="featureprism",
    ),
    Claim(
        "sum-law",
        source="beside Figure 3",
        says="Adding up the logits of each class, instead of their probabilities, gives most of the robustness away.",
        quantity="radius proven for half of the test points of the decision by summed logits ÷ (1 + 5o)√(d/6)",
        formula=r"\delta_{1/2} = (1 + |J_-|\,o)\sqrt{d/(1+|J_-|)},\qquad 9\,o = \Phi(-o/s),\ s^2 = (1+k/n)/d",
        bound=between(0.97, 1.05),
        because="all target classes rise at once; o is what a neuron has unlearned of another cluster",
        value=_over_sum_law,
        origin="featureprism",
    ),
    Claim(
        "universal-gap",
        source="Figure 3, sharp",
        says="One perturbation for all points of a class breaks the network of two labels and leaves the network of ten labels intact.",
        quantity=f"accuracy lost to the difference of the class means at {BEYOND} √(d/k): two labels minus ten",
        bound=above(0.9),
        because="nine of ten points",
        value=lambda rows: (
            summary("lost_to_universal", network="two-class")(rows)
            - summary("lost_to_universal", network="ten-class")(rows)
        ),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """Bands from proven to attacked accuracy, and the universal direction alone."""
    from featureprism.lab.style import COLOURS, FAILED_SELF_TEST, band, guide, over_seeds, panels

    figure, (axes,) = panels(1, width=5.6, height=3.4)
    for colour, name in zip(COLOURS, rows.of("curve").distinct("network"), strict=False):
        own = rows.of("curve", network=name)
        x, _, attacked, _ = over_seeds(own, "radius", "attacked_accuracy")
        certified = over_seeds(own, "radius", "certified_accuracy")[2]
        band(axes, x, certified, attacked, attacked, colour, NETWORKS[name])
        if name not in ("two-class", "ten-class"):
            continue
        x, _, universal, _ = over_seeds(rows.of("universal", network=name), "radius", "accuracy")
        axes.plot(x, universal, ":", color=colour, label=f"{NETWORKS[name]}, one universal direction")
    first = rows.of("summary")[0]
    k = first["positive"] + first["negative"]
    guide(axes, 1 / sqrt(k), f"√(d/{k})")
    guide(axes, sqrt(1 / (1 + first["negative"])), f"√(d/{1 + first['negative']})", height=0.8)
    guide(axes, sqrt(0.5), "√(d/2)")
    passed = all(r["self_test_passed"] for r in rows.of("summary"))
    axes.set_title("How much of the accuracy survives an attack" if passed else FAILED_SELF_TEST)
    axes.set(
        xlabel="ℓ2 radius (units of √d)",
        ylabel="robust accuracy: proven to attacked",
        xlim=(0, 1),
        ylim=(0, 1.03),
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


FIGURE_3 = Experiment(
    id="feature-averaging/figure-3",
    source="Li et al. 2025, Figure 3 (synthetic)",
    title="The averaging network breaks at √(d/k), the decoupled one near √(d/2)",
    scales=tested_on(40, *PROVEN_POINTS),
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Robust accuracy against the ℓ2 radius: bands from proven to attacked, and the accuracy under the universal direction"
        " Σ y_j μ_j alone. The decision that is attacked is the two-class one. For ten labels it is read off in three ways: LSE"
        " over J₊ minus LSE over J₋ (the paper's, as probabilities are summed), the largest logit of either class, and summed logits."
        " y f ≤ 0 counts as flipped for both labels."
    ),
)
