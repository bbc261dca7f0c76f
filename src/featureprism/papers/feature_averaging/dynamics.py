"""How the weights grow: the decomposition of Lemma 5.1, and the laws that the margins follow."""

import torch

from featureprism.context import Context
from featureprism.experiment import Claim, Experiment, Rows, at_least, at_most, below
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_averaging.setting import (
    Setting,
    k_class_start,
    ours,
    problem,
    summary,
    two_class_start,
)
from featureprism.papers.feature_averaging.theorems import of_4_5
from featureprism.probes import from_updates
from featureprism.records import Dataset, Row
from featureprism.theory import feature_averaging as theory
from featureprism.training import first_layer_descent


def measure_decomposition(s: Setting, seed: int, context: Context) -> list[Row]:
    """λ and σ by the updates of Lemma 5.2, the margins they lead to, and the premises of Theorem 4.5."""
    data = problem(s, seed)
    train, mu = data.train, data.clusters.mu
    start = two_class_start(s, seed)
    options = {"step_size": s.step_size, "steps": s.steps, "representation": "gram"}
    run = first_layer_descent(start, train.x, train.y, **options)
    context.progress(0.9)
    tracked = from_updates(run.probes["slopes"][-1][0], train, s.step_size)
    is_own = torch.sign(start.a.detach()).unsqueeze(1) == data.clusters.labels
    own, other = tracked.features[is_own], tracked.features[~is_own]
    row = {
        "kind": "summary",
        "least_own": float(own.min()),
        "largest_opposite": float(other.max()),
        "lambda": float(own.mean()),
        "lambda_spread": float(own.std() / own.mean()),
        "opposite": float(other.abs().mean()),
        **_margins(run.last, train),
    }
    features = [
        {"kind": "feature", "neuron": r, "cluster": j, "coefficient": value}
        for r, neuron in enumerate(tracked.features.tolist())
        for j, value in enumerate(neuron)
    ]
    premises = theory.premises(s, mu) + theory.training_time(s, s.steps)
    return [row, *features, *(premise.as_row() for premise in premises)]


def _margins(net: TwoLayerNet, data: Dataset) -> Row:
    """Margins of the training points, the ratio of their loss derivatives, and how many own neurons they activate."""
    with torch.no_grad():
        margin = data.y * net(data.x)
        assert net.b is not None
        active = data.x @ net.W.T + net.b >= 0
    own = torch.sign(net.a.detach()) == data.y.unsqueeze(1)
    slope = torch.sigmoid(-margin)
    return {
        "margin": float(margin.mean()),
        "least_margin": float(margin.min()),
        "margin_gap": float(margin.max() - margin.min()),
        "derivative_ratio": float(slope.max() / slope.min()),
        "own_active": float(active[own].double().mean()),
    }


CLAIMS_DECOMPOSITION = (
    of_4_5(
        "balanced",
        "Lemma 5.3",
        "margins of training points are balanced, their gaps o(1): largest minus least margin",
        summary("margin_gap"),
        below(1.0),
        note="o(1) read as below 1",
    ),
    of_4_5(
        "active",
        "Lemma 5.5",
        "every training point activates all neurons of its class: share that is active",
        summary("own_active"),
        at_least(1.0),
        over="every seed",
    ),
    of_4_5(
        "spread",
        "Section 5.3, step 1 (Lemma B.24)",
        "coefficients of own features are close to each other: relative spread of λ over own clusters and neurons",
        summary("lambda_spread"),
        at_most(0.15),
    ),
)


def measure_dynamics(s: Setting, seed: int, context: Context) -> list[Row]:
    """Mean margins of both networks along training beside their laws."""
    data = problem(s, seed)
    train = data.train
    times = sorted({round(s.steps * (i / 20) ** 2) for i in range(1, 21)})
    options = {"step_size": s.step_size, "steps": s.steps, "record": times}
    two = first_layer_descent(two_class_start(s, seed), train.x, train.y, **options)
    context.progress(0.5)
    fine = first_layer_descent(k_class_start(s, seed), train.x, train.cluster, **options)
    two_rate, fine_rate = theory.growth_rate(s, s.per_class), theory.growth_rate(s, s.group)
    rows: list[Row] = []
    for time, first, second in zip(two.times, two.snapshots, fine.snapshots, strict=True):
        with torch.no_grad():
            margin = float((train.y * first(train.x)).mean())
            logit = float(second(train.x).gather(1, train.cluster.unsqueeze(1)).mean())
        row = {"kind": "growth", "time": time}
        law = theory.two_class_margin(two_rate, time)
        rows.append({**row, "network": "two-class", "margin": margin, "law": law})
        law = theory.k_class_margin(fine_rate, time, s.num_clusters)
        rows.append({**row, "network": "k-class", "margin": logit, "law": law})
    return rows


LAWS = {
    "two-class": "mean margin against q + e^q = 1 + Ct, C = (ηd/m)(1/k + 1/n)",
    "k-class": "mean own logit against q + e^q/(k-1) = 1/(k-1) + Ct",
}


def _claim(network: str) -> Claim:
    def final_error(run: Rows) -> float:
        return abs(run.column("margin")[-1] / run.column("law")[-1] - 1)

    return ours(
        network,
        "Section 5, sharp",
        f"{LAWS[network]}, at the end: relative error",
        lambda rows: rows.of("growth", network=network).per_seed(final_error),
        below(0.03),
    )


DECOMPOSITION = Experiment(
    id="feature-averaging/decomposition",
    source="Li et al. 2025, Lemmas 5.1-5.5",
    title="Every neuron is its start, plus features, plus memorised noise",
    scales={"quick": [Setting()], "standard": [Setting(steps=1000)], "paper": [Setting(steps=1000)]},
    measure=measure_decomposition,
    claims=CLAIMS_DECOMPOSITION,
    about=(
        "λ and σ tracked by the update rule during training in the Gram representation, exact to rounding. The paper's eq. (4)"
        " prints the inverse of the ratio of Corollary B.4."
    ),
)
DYNAMICS = Experiment(
    id="feature-averaging/dynamics",
    source="Li et al. 2025, Section 5",
    title="Margins grow like the logarithm of ηdt/(km)",
    scales={
        "quick": [Setting(steps=300)],
        "standard": [Setting(steps=2000)],
        "paper": [Setting(steps=10_000)],
    },
    measure=measure_dynamics,
    claims=tuple(_claim(network) for network in LAWS),
    about="Mean margins along training and the closed laws; the paper's bounds ln(ηt)/4 and 4 ln(t+1) drop the factor d/(km).",
)
