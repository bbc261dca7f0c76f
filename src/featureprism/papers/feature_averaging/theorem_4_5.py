"""Theorem 4.5: what descent finds with two labels, and where it breaks."""

from dataclasses import replace
from typing import Any

import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import mean_of
from featureprism.papers.feature_averaging.features import feature_fit
from featureprism.papers.feature_averaging.setting import (
    LITTLE_O,
    LITTLE_O_READ,
    OF_THEOREM_4_5,
    Baseline,
    attack_facts,
    bracket,
    clean_accuracy,
    problem,
    summary,
    tested_on,
    train_two_class,
    two_class_start,
)

BELOW, ABOVE = 0.8, 1.2  # of √(d/k): where points must still hold, and be broken; radii spread by 1 around it


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """The trained two-class network: clean accuracy, averaged weights, and where it breaks; premises and events beside."""
    data = problem(s, seed)
    net = train_two_class(s, data.train, seed)
    context.progress(0.5)
    mu = data.clusters.mu
    own = torch.sign(net.a.detach()).unsqueeze(1) == data.clusters.labels
    radii = bracket(net, data.test)
    critical = theory.critical_radius(s.dim, s.num_clusters)
    certified, attacked = radii.accuracy(torch.tensor([BELOW, ABOVE]).double() * critical)
    start = two_class_start(s, seed)
    assert start.b is not None
    assert net.b is not None
    fit = feature_fit(net.W.detach(), own, mu)
    row = {
        "kind": "summary",
        "clean_accuracy": clean_accuracy(net, data.test),
        "lambda": fit.growth,
        "relative_error": fit.relative_error,
        "mean_error": fit.mean_error,
        "error_law": theory.weights_law(s, fit.growth),
        "scaled_error": fit.scaled_error,
        "bias": float(net.b.detach().abs().max()),
        **attack_facts(radii),
        "certified_below": float(certified[0]),
        "attacked_above": float(attacked[1]),
    }
    premises = [
        *theory.premises(s, mu),
        *theory.training_time(s, s.steps),
        *theory.sample_events(data.train),
        *theory.start_events(s, start.W.detach(), start.b.detach()),
    ]
    return [row, *(premise.as_row() for premise in premises)]


CLAIMS = (
    Claim(
        "clean",
        source="Theorem 4.5 (1)",
        says="A network trained with two labels classifies nearly every new point correctly.",
        quantity="share of test points that are classified correctly",
        formula=r"\mathrm{Acc}_{\text{clean}} \ge 1 - \exp(-\Omega(\log^2 d))",
        bound=at_least(0.999),
        because="nearly perfect is read as 999 of 1000",
        value=lambda rows: rows.of("summary").least("clean_accuracy"),
        premises=OF_THEOREM_4_5,
    ),
    Claim(
        "weights-order",
        source="Theorem 4.5 (2)",
        says="With two labels, every neuron becomes a multiple of the sum of the cluster centres of its class, up to o(1/√d).",
        quantity="largest distance of a neuron from λ Σ μ_j/d, times √d",
        formula=r"\bigl\lVert w_{s,r} - \lambda \sum_{j \in J_s} \mu_j / \lVert\mu_j\rVert^2 \bigr\rVert \le o(d^{-1/2})",
        bound=LITTLE_O,
        because=LITTLE_O_READ,
        value=lambda rows: rows.of("summary").largest("scaled_error"),
        premises=OF_THEOREM_4_5,
        note="it grows with λ, hence with ln T; the error relative to λ does not",
    ),
    Claim(
        "weights",
        source="Theorem 4.5 (2), sharp",
        says="The distance of a neuron from the averaged features consists of memorised noise, unequal cluster sizes and what it has"
        " unlearned of the other class.",
        quantity="root mean square over neurons of the relative distance from λ Σ μ_j/d, ÷ the predicted distance",
        formula=r"\frac{\lVert w - \lambda \sum \mu_j/d \rVert}{\lVert \lambda \sum \mu_j/d \rVert}"
        r" = \sqrt{\tfrac{k}{n}\bigl(1 + (g/\lambda)^2\bigr) + o^2}",
        bound=between(0.94, 1.06),
        because="six percent, the spread that the random sizes of ten clusters leave",
        value=lambda rows: summary("mean_error")(rows) / summary("error_law")(rows),
        origin="featureprism",
    ),
    Claim(
        "growth",
        source="Theorem 4.5 (2)",
        says="With two labels, the coefficient λ of the averaged features is at least of order 1.",
        quantity="mean of ⟨w, μ_j⟩ over the neurons and clusters of a class",
        formula=r"\lambda^{(T)} = \Omega(1)",
        bound=at_least(1.0),
        because="Ω(1) has no constant; it is read as at least 1",
        value=summary("lambda"),
        premises=OF_THEOREM_4_5,
    ),
    Claim(
        "bias",
        source="Theorem 4.5 (2)",
        says="With two labels, the biases of the neurons stay small.",
        quantity="largest |b|",
        formula=r"|b_{s,r}^{(T)}| \le o(1)",
        bound=LITTLE_O,
        because=LITTLE_O_READ,
        value=summary("bias"),
        premises=OF_THEOREM_4_5,
        note="a bias is its start plus Σ_j λ_j/d, about |J|λ/d",
    ),
    Claim(
        "breaks",
        source="Theorem 4.5 (3)",
        says="A network trained with two labels is broken at nearly every point by a perturbation of length of order √(d/k).",
        quantity=f"share of test points that an attack breaks within {ABOVE} √(d/k)",
        formula=r"\mathrm{Acc}_{\text{robust}}(\delta) \le \exp(-\Omega(\log^2 d)) \text{ for } \delta = \Omega(\sqrt{d/k})",
        bound=at_least(0.95),
        because=f"radii of points spread by 1 around √(d/k) = 17.5: {ABOVE} √(d/k) is three and a half spreads beyond",
        value=lambda rows: 1 - summary("attacked_above")(rows),
        premises=OF_THEOREM_4_5,
        headline=True,
        note="the attack of the proof has norm 2(1+c)√(d/k), beyond √(d/2), where no classifier is robust, up to k = 32",
    ),
    Claim(
        "holds",
        source="Theorem 4.5 (3), sharp",
        says=f"A network trained with two labels is robust up to {BELOW} √(d/k): its radius is of order √(d/k), not smaller.",
        quantity=f"share of test points that are proven robust at {BELOW} √(d/k)",
        bound=at_least(0.95),
        because=f"radii of points spread by 1 around √(d/k) = 17.5: {BELOW} √(d/k) is three and a half spreads below",
        value=summary("certified_below"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """The conclusions as bars: clean accuracy, what is proven below √(d/k), and what an attack leaves above."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=4.6, height=2.3)
    bars = {
        "clean": "clean_accuracy",
        f"proven at {BELOW} √(d/k)": "certified_below",
        f"attacked at {ABOVE} √(d/k)": "attacked_above",
    }
    for position, (text, key) in enumerate(bars.items()):
        value = mean_of(rows.of("summary"), key)
        axes.barh(position, value, color=COLOURS[0], height=0.6)
        axes.annotate(f" {value:.3f}", (value, position), va="center", fontsize=8)
        axes.text(-0.02, position, text, ha="right", va="center", fontsize=8)
    axes.set(xlabel="accuracy", xlim=(0, 1.15), yticks=[])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    return figure


THEOREM_4_5 = Experiment(
    id="feature-averaging/theorem-4-5",
    source="Li et al. 2025, Theorem 4.5",
    title="Two labels: how close weights come to class averages, and where the network breaks",
    scales={
        scale: [replace(s, steps=1000) for s in settings]
        for scale, settings in tested_on(40, 1000, 1000).items()
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Assumptions (constants of their orders set to 1), events of the proof and conclusions, measured on one training run of"
        " T = 1/η = 1000 steps, the fewest that the theorem speaks of; the figures of the paper have 100. Inside Assumption 4.3 the"
        " theorem is measured in `regime`."
    ),
)
