"""The theorems audited: Assumption 2.2 with its slack, the events and the lemmas at the exact KKT point, and its robust rival."""

import torch

from featureprism.attacks import flipping_norm
from featureprism.context import Context
from featureprism.lab import (
    Bound,
    Claim,
    Experiment,
    Rows,
    Values,
    at_least,
    at_most,
    below,
    between,
    requires,
)
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.robustness import robust_bracket
from featureprism.papers.double_edged.setting import (
    EXACT_KINK,
    INSIDE,
    Bracketed,
    Problem,
    critical_norm,
    direction,
    inside,
    ours,
    outside,
    problem,
    separation,
)
from featureprism.probes import KKTAudit, cluster_sums, kkt_audit
from featureprism.probes.kkt import neuron_activity
from featureprism.records import Row
from featureprism.theory import double_edged as theory
from featureprism.training import max_margin_network

ROBUST_GAP = 0.1  # of the bracket of the robust network, whose law is √d/2


def measure(s: Bracketed, seed: int, context: Context) -> list[Row]:
    """Premises, events and lemmas at the exact KKT point of one setting, and how robust it is beside the network of Theorem 4.1."""
    data = problem(s, seed)
    apart = separation(s, data)
    measured, met = theory.on_sample(apart, data.train), theory.on_sample(apart, data.train, data.test)
    net = max_margin_network(data.train.x, data.train.y).net
    audit = kkt_audit(net, data.train.x, data.train.y, tolerance=EXACT_KINK)
    context.progress(0.5)
    norm = flipping_norm(net, data.test.x, data.test.y, direction(data))
    robust = robust_bracket(s, data, ROBUST_GAP)
    row: Row = {
        "kind": "audit",
        "crowding": apart.crowding,
        "measured_crowding": measured.crowding,
        "test_crowding": met.crowding,
        "stationarity": audit.stationarity,
        **_lemmas(net, data, measured, met, audit),
        "critical": norm / critical_norm(data),
        "over_robust": norm / float(robust.certified.median()),
    }
    context.progress(1.0)
    premises = theory.assumption_2_2(apart) + theory.assumption_2_2(met)[:1]
    premises += theory.size_conditions(s) + theory.sample_events(apart, data.train)
    return [row, *(premise.as_row() for premise in premises)]


@torch.no_grad()
def _lemmas(
    net: TwoLayerNet, data: Problem, s: theory.Separation, met: theory.Separation, audit: KKTAudit
) -> Row:
    """Lemmas A.10-A.12, D.2-D.4 with the Δ of the sample: measured ÷ bound.

    A.12 and D.3 speak of test points: their Δ also covers the products of test with training points.
    """
    x, y, cluster = data.train.x, data.train.y, data.train.cluster
    sums = cluster_sums(net, x, y, cluster, audit)
    own = torch.where(data.clusters.labels > 0, sums[:, 0], sums[:, 1])
    weighted = audit.multipliers @ neuron_activity(net, x, audit) * net.a.abs()
    inputs = data.test.x @ net.W.T + (0 if net.b is None else net.b)
    toward = (net.W @ direction(data)) * torch.sign(net.a)
    margins = data.test.y * net(data.test.x)
    return {
        "a10": float(sums.max()) / theory.largest_sum(s),
        "a11": float(own.min()) / theory.least_own_sum(s),
        "own_sum_times_d": float(own.mean()) * (s.dim + 1),
        "a12": float(margins.min()) / theory.least_test_margin(met),
        "d2": float(margins.abs().max()),
        "d3": float((inputs / weighted).min()) / -theory.least_input(met),
        "d4": float((toward / weighted).min()) / theory.alignment_room(s),
    }


def _lemma(name: str, source: str, statement: str, bound: Bound) -> Claim:
    """The largest value inside the assumption against an upper bound, the least one against a lower bound; one seed refutes."""
    worst = Rows.largest if bound.relation == "<=" else Rows.least

    def value(rows: Rows) -> Values:
        return worst(inside(rows.of("audit")), name)

    premises = requires("assumption-2-2", "theorem-3-1", "on-sample", "proposition-a-1", case="within")
    text = f"{statement}; Δ of the sample"
    return Claim(name, source, text, value, bound, premises=premises, aggregate="worst")


def _most_clusters(rows: Rows) -> Rows:
    """The setting inside the assumption with the most clusters."""
    own = inside(rows.of("audit"))
    return own.having(clusters=max(own.distinct("clusters"), default=0))


def _how_many(rows: Rows) -> str:
    k = max(_most_clusters(rows).distinct("clusters"))
    return f"k = {k}; the law is 2/√k, so that at k = 4 both are alike"


CLAIMS = (
    Claim(
        "contrast",
        "Theorems 4.1, 4.2",
        "training ends at less robust networks than there are: norm along u that flips half of the test points of the KKT point ÷"
        " proven median radius of Theorem 4.1's network, most clusters inside the assumption",
        lambda rows: _most_clusters(rows).largest("over_robust"),
        below(1.0),
        note=_how_many,
        premises=INSIDE,
    ),
    _lemma(
        "a10",
        "Lemma A.10",
        "cluster sums Σ λ_i v_j² φ'_ij, j of one sign, are at most 1/((1 - 2c')(d - Δ + 1)): largest ÷ that",
        at_most(1.0),
    ),
    _lemma(
        "a11",
        "Lemma A.11",
        "those of the cluster's own sign are at least (1 - c'/(1 - 2c'))/(3d + Δ + 1): least ÷ that",
        at_least(1.0),
    ),
    _lemma(
        "a12",
        "Theorem 3.1, proof of Lemma A.12",
        "KKT points generalise: y N(x) ≥ (1 - c'/(1 - 2c'))(d - Δ + 1)/(3d + Δ + 1) - 2c'/(1 - 2c') on test points, least ÷ that",
        at_least(1.0),
    ),
    _lemma("d2", "Lemma D.2", "|N(x)| ≤ 2: largest on test points", at_most(2.0)),
    _lemma(
        "d3",
        "Lemma D.3",
        "⟨w_j, x⟩ + b_j ≥ -(2Δ + p + 1) Σ λ_i |v_j| φ'_ij: least ⟨w_j, x⟩ + b_j on test points ÷ ((2Δ + p + 1) Σ λ_i |v_j| φ'_ij)",
        at_least(-1.0),
    ),
    _lemma(
        "d4",
        "Lemma D.4",
        "±⟨w_j, u⟩ ≥ (d - Δ - k(p + Δ)) Σ λ_i |v_j| φ'_ij, the sign that of v_j: least ÷ that",
        at_least(1.0),
    ),
    ours(
        "sums",
        "Lemmas A.10, A.11, sharp",
        "(d + 1) × mean own cluster sum inside the assumption (1 as σ → 0)",
        lambda rows: rows.of("audit", case="within").largest("own_sum_times_d"),
        between(0.95, 1.05),
        premises=INSIDE,
    ),
    ours(
        "outside",
        "beyond Theorem 4.2",
        "critical norm ÷ (‖u‖/k) outside the assumption, the one farthest from 1",
        lambda rows: outside(rows.of("audit")).farthest("critical", 1.0),
        between(0.9, 1.1),
        note="the same as inside, where c' is 1000 times smaller: the assumption is far from necessary",
    ),
)

ASSUMPTION_2_2 = Experiment(
    id="double-edged/assumption-2-2",
    source="Frei et al. 2023, Assumption 2.2 and Appendices A, D",
    title="The theorems audited: premises, events, lemmas, the robust rival",
    scales={
        "quick": [
            Bracketed.within(radius_points=10),
            Bracketed.within(3000, 8, radius_points=10),
            Bracketed.within(6000, 16, radius_points=10),
            Bracketed.usual(radius_points=10),
        ],
        "standard": [
            *(Bracketed.within(d, k, radius_points=50) for d, k in ((3000, 4), (3000, 8), (6000, 16))),
            Bracketed.usual(radius_points=50),
            Bracketed.on_sphere(radius_points=50),
        ],
        "paper": [
            *(
                Bracketed.within(d, k, radius_points=200)
                for d, k in ((3000, 4), (3000, 8), (6000, 16), (10000, 26))
            ),
            Bracketed.usual(3072, 10, radius_points=200),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Assumption 2.2 with the printed Δ and that of the sample, events P1-P6, Lemmas A.10-A.12, D.2-D.4; the exact KKT point beside"
        " the robust network of Theorem 4.1. The printed z of Theorem 4.2, longer than the points below k = 324, is tested only."
    ),
)
