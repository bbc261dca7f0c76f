"""Theorems 4.5, 4.6, 4.7 and Proposition 4.8: what descent finds with two labels and with k, and what it could have found."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.experiment import (
    Bound,
    Claim,
    Experiment,
    Rows,
    Under,
    Values,
    at_least,
    at_most,
    below,
    between,
    under,
)
from featureprism.networks import (
    BinaryReadout,
    averaging_classifier,
    decoupled_classifier,
    shared_features_net,
)
from featureprism.papers.feature_averaging.figures import universal_accuracy
from featureprism.papers.feature_averaging.setting import (
    Setting,
    attack_facts,
    bracket,
    clean_accuracy,
    problem,
    train_k_class,
    train_two_class,
    two_class_start,
)
from featureprism.probes import sphere_distance
from featureprism.records import Row
from featureprism.theory import feature_averaging as theory

BELOW, ABOVE = 0.8, 1.2  # of √(d/k): where points must still hold, and be broken; radii spread by 1 around it
ASSUMPTIONS = ("assumption-3-2", "assumption-3-3", "assumption-4-3")


@dataclass(frozen=True, kw_only=True)
class SampleSizes(Setting):
    """Networks trained on samples of several sizes."""

    sizes: tuple[int, ...]


class FeatureFit(NamedTuple):
    """λ, and the largest ‖w_r - λ Σ_own μ_j/d‖: in units of ‖λ Σ_own μ_j/d‖, and in units of 1/√d as the theorems have it."""

    growth: float
    relative_error: float
    scaled_error: float


def feature_fit(W: Tensor, own: Tensor, mu: Tensor) -> FeatureFit:
    """Neurons as λ times their own features; own[r, j] says whether μ_j is one of w_r's, λ is the mean of ⟨w_r, μ_j⟩ over them."""
    d, own = mu.shape[1], own.to(W.dtype)  # (h, k)
    growth = ((W @ mu.T * own).sum(dim=1) / own.sum(dim=1)).mean()
    model = growth * own @ mu / d
    error = torch.linalg.vector_norm(W - model, dim=1)
    relative = error / torch.linalg.vector_norm(model, dim=1)
    return FeatureFit(float(growth), float(relative.max()), sqrt(d) * float(error.max()))


def fit_row(fit: FeatureFit, s: Setting) -> Row:
    """The fit as it stands in a summary, with the relative error that memorised noise explains."""
    return {
        "lambda": fit.growth,
        "relative_error": fit.relative_error,
        "scaled_error": fit.scaled_error,
        "noise_share": theory.noise_share(s.num_clusters, s.points),
    }


def measure_4_5(s: Setting, seed: int, context: Context) -> list[Row]:
    """The trained two-class network: clean accuracy, averaged weights, and where it breaks; premises and events beside."""
    data = problem(s, seed)
    net = train_two_class(s, data.train, seed)
    context.progress(0.5)
    mu, labels = data.clusters.mu, data.clusters.labels
    own = torch.sign(net.a.detach()).unsqueeze(1) == labels
    radii = bracket(net, data.test)
    critical = theory.critical_radius(s.dim, s.num_clusters)
    certified, attacked = radii.accuracy(torch.tensor([BELOW, ABOVE]).double() * critical)
    start = two_class_start(s, seed)
    assert net.b is not None
    assert start.b is not None
    printed = theory.printed_attack_norm(s)
    summary = {
        "kind": "summary",
        "clean_accuracy": clean_accuracy(net, data.test),
        **fit_row(feature_fit(net.W.detach(), own, mu), s),
        "largest_bias": float(net.b.detach().abs().max()),
        **attack_facts(radii),
        "certified_below": float(certified[0]),
        "attacked_above": float(attacked[1]),
        "printed_norm": printed,
        "printed_accuracy": universal_accuracy(net, data.test, mu, labels, printed),
        "printed_is_vacuous": printed > theory.largest_radius(s.dim),
        "epsilon": theory.epsilon(s),
    }
    premises = [
        *theory.premises(s, mu),
        *theory.training_time(s, s.steps),
        *theory.sample_events(data.train),
        *theory.start_events(s, start.W.detach(), start.b.detach()),
    ]
    return [summary, *(premise.as_row() for premise in premises)]


def _summary(name: str) -> Callable[[Rows], Values]:
    return lambda rows: rows.of("summary").per_seed(name)


def _over_noise(rows: Rows) -> Values:
    """The relative error of the weights ÷ √(k/n)."""
    return _summary("relative_error")(rows) / _summary("noise_share")(rows)


def _vacuous(rows: Rows) -> str:
    summary = rows.of("summary")
    norm, best = summary.column("printed_norm").mean(), np.sqrt(summary.column("dim").mean() / 2)
    return (
        f"the printed attack has norm {norm:.1f}, beyond √(d/2) = {best:.1f}, and the proof's"
        f" ε is {summary.column('epsilon').mean():.0f}: both vacuous at this size"
    )


UNDER_4_5 = under(*ASSUMPTIONS, "theorem-4-5")
UNDER_4_7 = under(*ASSUMPTIONS, "theorem-4-7")


def _of_paper(
    name: str, source: str, statement: str, key: str, bound: Bound, premises: Under, note: str = ""
) -> Claim:
    return Claim(name, source, statement, _summary(key), bound, note=note, premises=premises)


CLAIMS_4_5 = (
    _of_paper("clean", "Theorem 4.5 (1)", "clean accuracy", "clean_accuracy", at_least(0.999), UNDER_4_5),
    _of_paper(
        "weights-order",
        "Theorem 4.5 (2)",
        "weights are class averages: √d ‖w - λ Σ μ_j/d‖ = o(1), largest over neurons",
        "scaled_error",
        below(1.0),
        UNDER_4_5,
        "o(1) read as below 1; it grows with λ, the relative error does not",
    ),
    Claim(
        "weights",
        "Theorem 4.5 (2), sharp",
        "w = λ Σ μ_j/d up to memorised noise: largest relative error ÷ √(k/n)",
        _over_noise,
        between(0.8, 1.6),
        speaker="ours",
    ),
    _of_paper("bias", "Theorem 4.5 (2)", "biases stay small", "largest_bias", at_most(0.01), UNDER_4_5),
    Claim(
        "printed-attack",
        "Theorem 4.5 (3)",
        "accuracy is nearly zero under the attack of the proof, of norm 2(1+c)√(d/k)",
        _summary("printed_accuracy"),
        at_most(0.05),
        note=_vacuous,
        premises=UNDER_4_5,
    ),
    Claim(
        "holds",
        "Theorem 4.5 (3), sharp",
        f"proven accuracy at {BELOW} √(d/k)",
        _summary("certified_below"),
        at_least(0.95),
        speaker="ours",
    ),
    Claim(
        "breaks",
        "Theorem 4.5 (3), sharp",
        f"attacked accuracy at {ABOVE} √(d/k)",
        _summary("attacked_above"),
        at_most(0.05),
        speaker="ours",
    ),
)


def measure_4_6(s: SampleSizes, seed: int, context: Context) -> list[Row]:
    """inf_C sup_{‖x‖=√d} |C f_FA - f| ÷ sup|f| for several sample sizes."""
    rows: list[Row] = []
    for index, num in enumerate(s.sizes):
        run = replace(s, points=num)
        data = problem(run, seed)
        net = train_two_class(run, data.train, seed)
        reference = averaging_classifier(data.clusters.mu, data.clusters.labels)
        # positive homogeneity (the biases are tiny): the unit sphere decides, and |f - C f_FA| is least in C
        gap = sphere_distance(reference, net, best_scale=True)
        zero = averaging_classifier(0 * data.clusters.mu, data.clusters.labels)
        largest = sphere_distance(zero, net)
        rows.append({"kind": "gap", "num": num, "gap": gap.value / largest.value, "scale": gap.scale * s.dim})
        premises = theory.premises(run, data.clusters.mu) + theory.training_time(run, s.steps)
        rows += [{"num": num, **premise.as_row()} for premise in premises]
        context.progress((index + 1) / len(s.sizes))
    return rows


CLAIMS_4_6 = (
    Claim(
        "gap",
        "Theorem 4.6",
        "the trained network approaches f_FA: sup|C f_FA - f| ÷ sup|f| at the largest n ÷ at the smallest",
        lambda rows: rows.of("gap").per_seed(lambda run: run.column("gap")[-1] / run.column("gap")[0]),
        below(1.0),
        premises=UNDER_4_5,
    ),
    Claim(
        "size",
        "Theorem 4.6",
        "the gap itself at the largest n",
        lambda rows: rows.of("gap").per_seed(lambda run: run.column("gap")[-1]),
        below(0.2),
        note="the theorem gives an order only",
        premises=UNDER_4_5,
    ),
)


def measure_4_7(s: Setting, seed: int, context: Context) -> list[Row]:
    """The trained k-class network: its weights, and the radius of its two-class read-out."""
    data = problem(s, seed)
    net = train_k_class(s, data.train, seed)
    context.progress(0.5)
    mu, k = data.clusters.mu, s.num_clusters
    readout = BinaryReadout(net, data.clusters.labels)
    radii = bracket(readout, data.test)
    certified, _ = radii.accuracy(torch.tensor([theory.printed_decoupled_radius(s.dim)]).double())
    summary = {
        "kind": "summary",
        "clean_accuracy": clean_accuracy(readout, data.test),
        **fit_row(feature_fit(net.equivalent_weights(), torch.eye(k), mu), s),
        "needed_lambda": 2 * log(k),
        **attack_facts(radii),
        "certified_at_printed": float(certified[0]),
        "half_radius": float(radii.attacked.median()),
        "certified_half_radius": float(radii.certified.median()),
    }
    premises = theory.premises(s, mu) + theory.training_time(s, s.steps, "4.7")
    return [summary, *(premise.as_row() for premise in premises)]


CLAIMS_4_7 = (
    _of_paper("clean", "Theorem 4.7 (1)", "clean accuracy", "clean_accuracy", at_least(0.999), UNDER_4_7),
    _of_paper(
        "weights-order",
        "Theorem 4.7 (2)",
        "weights are single features: √d ‖w_j - λ μ_j/d‖ = o(1), largest over neurons",
        "scaled_error",
        below(1.0),
        UNDER_4_7,
        "o(1) read as below 1",
    ),
    Claim(
        "weights",
        "Theorem 4.7 (2), sharp",
        "w_j = λ μ_j/d up to memorised noise: largest relative error ÷ √(k/n)",
        _over_noise,
        between(0.8, 1.6),
        speaker="ours",
    ),
    Claim(
        "growth",
        "Theorem 4.7 (2)",
        "λ is of order ln k: λ ÷ (2 ln k), the constant of the proof",
        lambda rows: _summary("lambda")(rows) / _summary("needed_lambda")(rows),
        at_least(1.0),
        premises=UNDER_4_7,
    ),
    _of_paper(
        "radius",
        "Theorem 4.7 (3)",
        "proven accuracy at √d/10, the radius of the proof (Theorem C.22)",
        "certified_at_printed",
        at_least(0.99),
        UNDER_4_7,
        "the theorem asks for T of order k⁸/η steps; 100 are enough",
    ),
)


def measure_4_8(s: Setting, seed: int, context: Context) -> list[Row]:
    """The constructions on the same test points: f_FA, f_dec, and the k-class network that shares features."""
    data = problem(s, seed)
    d, k, (mu, labels) = s.dim, s.num_clusters, (data.clusters.mu, data.clusters.labels)
    fine = shared_features_net(mu, labels)
    nets = {
        "averaging": (averaging_classifier(mu, labels), theory.critical_radius(d, k)),
        "decoupled": (decoupled_classifier(mu, labels), sqrt(d)),
        "shared": (BinaryReadout(fine, labels), theory.shared_features_radius(d, k)),
    }
    printed = torch.tensor([theory.printed_shared_attack_norm(s)]).double()
    rows: list[Row] = []
    for index, (name, (net, unit)) in enumerate(nets.items()):
        radii = bracket(net, data.test, gap=0.005)
        rows.append(
            {
                "kind": "summary",
                "network": name,
                "clean_accuracy": clean_accuracy(net, data.test),
                **attack_facts(radii),
                "radius": float(radii.attacked.median()) / unit,
                "certified_radius": float(radii.certified.median()) / unit,
                "attacked_at_printed": float(radii.accuracy(printed)[1]),
            }
        )
        context.progress((index + 1) / len(nets))
    with torch.no_grad():
        logits = fine(data.test.x)
    loss = torch.nn.functional.cross_entropy(logits, data.test.cluster)
    right = float((logits.argmax(dim=1) == data.test.cluster).double().mean())
    return [*rows, {"kind": "fine", "cross_entropy": float(loss), "fine_accuracy": right}]


def _of_network(network: str, name: str) -> Callable[[Rows], Values]:
    return lambda rows: rows.of("summary", network=network).per_seed(name)


CLAIMS_4_8 = (
    Claim(
        "clean",
        "Proposition 4.8",
        "the network that shares features classifies perfectly (fine and two-class accuracy, the smaller)",
        lambda rows: np.minimum(
            rows.of("fine").per_seed("fine_accuracy"), _of_network("shared", "clean_accuracy")(rows)
        ),
        at_least(1.0),
    ),
    Claim(
        "breaks",
        "Proposition 4.8",
        "and is not robust: attacked accuracy at 3(1+c)√(d/k), the radius of the proof",
        _of_network("shared", "attacked_at_printed"),
        at_most(0.05),
        note="that radius is beyond √(d/2), where no classifier is robust, up to k = 72",
    ),
    Claim(
        "radius",
        "Proposition 4.8, sharp",
        "it breaks far earlier: 50 % radius ÷ 2√(d/(k+6))",
        _of_network("shared", "radius"),
        between(0.9, 1.05),
        speaker="ours",
    ),
    Claim(
        "averaging",
        "Theorems D.1, D.2, sharp",
        "f_FA breaks at √(d/k): 50 % radius ÷ √(d/k)",
        _of_network("averaging", "radius"),
        between(0.95, 1.05),
        speaker="ours",
    ),
    Claim(
        "decoupled",
        "Theorem D.3",
        "f_dec is √d/3-robust: proven 50 % radius ÷ √d",
        _of_network("decoupled", "certified_radius"),
        at_least(1 / 3),
    ),
)
TEST_POINTS = {"quick": 40, "standard": 1000, "paper": 1000}
TRAINED = {scale: [Setting(test_points=num)] for scale, num in TEST_POINTS.items()}

THEOREM_4_5 = Experiment(
    id="feature-averaging/theorem-4-5",
    source="Li et al. 2025, Theorem 4.5",
    title="Two labels: weights are class averages, and the network breaks at √(d/k)",
    scales=TRAINED,
    measure=measure_4_5,
    claims=CLAIMS_4_5,
    about="Assumptions (constants of their orders set to 1), events of the proof and conclusions, measured on one training run.",
)
THEOREM_4_6 = Experiment(
    id="feature-averaging/theorem-4-6",
    source="Li et al. 2025, Theorem 4.6",
    title="The trained network approaches the averaging classifier",
    scales={
        "quick": [SampleSizes(sizes=(1000, 2000))],
        "standard": [SampleSizes(sizes=(1000, 4000, 10_000))],
        "paper": [SampleSizes(sizes=(1000, 10_000, 50_000))],
    },
    measure=measure_4_6,
    claims=CLAIMS_4_6,
    about="The least sup-distance on the sphere between the trained network and a multiple of f_FA, relative to its own size.",
)
THEOREM_4_7 = Experiment(
    id="feature-averaging/theorem-4-7",
    source="Li et al. 2025, Theorem 4.7",
    title="Labels for every cluster: weights are single features, and the network is robust",
    scales=TRAINED,
    measure=measure_4_7,
    claims=CLAIMS_4_7,
    about="Conclusions of the theorem on the trained ten-class network; the radius is that of the two-class decision.",
)
PROPOSITION_4_8 = Experiment(
    id="feature-averaging/proposition-4-8",
    source="Li et al. 2025, Proposition 4.8 and Appendix D",
    title="Fine labels alone do not force robustness: the constructions",
    scales={scale: [Setting(points=1, test_points=num)] for scale, num in TEST_POINTS.items()},
    measure=measure_4_8,
    claims=CLAIMS_4_8,
    about=(
        "Three networks written down: f_FA averages, f_dec keeps one neuron for each cluster, a ten-class network fits the fine labels"
        " perfectly while sharing features within each class. Only descent's own choice makes fine labels robust."
    ),
)
