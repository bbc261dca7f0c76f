"""The theorems audited: Assumption 2.2 with its slack, the events, the lemmas and every conclusion at the exact KKT point."""

import torch

from featureprism.attacks import flipping_norm
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
    between,
    under,
)
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.robustness import printed_z, proven_at_promise, robust_bracket
from featureprism.papers.double_edged.setting import (
    EXACT_KINK,
    INSIDE,
    Bracketed,
    Problem,
    critical_norm,
    direction,
    error_of,
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


def measure(s: Bracketed, seed: int, context: Context) -> list[Row]:
    """Premises, events, lemmas and conclusions of all theorems at the exact KKT point of one setting."""
    data = problem(s, seed)
    apart = separation(s, data)
    measured, met = theory.on_sample(apart, data.train), theory.on_sample(apart, data.train, data.test)
    net = max_margin_network(data.train.x, data.train.y).net
    audit = kkt_audit(net, data.train.x, data.train.y, tolerance=EXACT_KINK)
    context.progress(0.5)
    assumption, events = theory.assumption_2_2(apart), theory.sample_events(apart, data.train)
    row: Row = {
        "kind": "audit",
        "assumption": theory.holds(assumption),
        "crowding": apart.crowding,
        "measured_crowding": measured.crowding,
        "measured_assumption": measured.crowding <= 0.1,
        "failure_probability": theory.failure_probability(s),
        "events": theory.holds(events),
        "stationarity": audit.stationarity,
        "test_crowding": met.crowding,
        **_lemmas(net, data, measured, met, audit),
        **_conclusions(net, data, apart),
        "robust_exists": proven_at_promise(robust_bracket(s, data, 0.5), s.dim),
    }
    context.progress(1.0)
    premises = assumption + theory.assumption_2_2(met)[:1] + theory.size_conditions(s) + events
    return [row, *(premise.as_row() for premise in premises)]


@torch.no_grad()
def _lemmas(
    net: TwoLayerNet, data: Problem, s: theory.Separation, met: theory.Separation, audit: KKTAudit
) -> Row:
    """Lemmas A.10-A.12, D.2-D.4 with the Δ of the sample: measured ÷ bound, or the least of both sides' difference.

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
        "a12": float(margins.min()) - theory.least_test_margin(met),
        "d2": float(margins.abs().max()),
        "d3": float((inputs - theory.least_input(met) * weighted).min()),
        "d4": float((toward - theory.alignment_room(s) * weighted).min()),
        "room": theory.alignment_room(s),
    }


def _conclusions(net: TwoLayerNet, data: Problem, s: theory.Separation) -> Row:
    """What Theorems 3.1 and 4.2 promise: a small test error, and a network flipped by the printed z."""
    error, bound = error_of(net, data.test), theory.test_error_bound(s)
    critical = critical_norm(data)
    return {
        "error": error,
        "error_bound": bound,
        "excess_error": error - bound,
        "critical": flipping_norm(net, data.test.x, data.test.y, direction(data)) / critical,
        **printed_z(net, data, s),
    }


def _inside(
    name: str, field: str, source: str, statement: str, bound: Bound, premises: Under = INSIDE
) -> Claim:
    """The largest value inside the assumption against an upper bound, the least one against a lower bound; one seed refutes."""
    worst = Rows.largest if bound.relation == "<=" else Rows.least

    def value(rows: Rows) -> Values:
        return worst(inside(rows.of("audit")), field)

    return Claim(name, source, statement, value, bound, premises=premises, over="every seed")


def _lemma(name: str, source: str, statement: str, bound: Bound) -> Claim:
    premises = under("assumption-2-2", "on-sample", "proposition-a-1", case="within")
    return _inside(name, name, source, f"{statement}, Δ of the sample", bound, premises)


_EVENTS = "(P1)-(P6) hold on the training set: least over settings (1: all of them)"
_ERROR = "test error minus 4n d^(-ln d/2), largest over settings"
_ROBUST = (
    "share of test points on which the constructed network is proven robust at √d/8, least over settings"
)
_PRINTED = "share of test points that the printed z flips, least over settings"
CLAIMS = (
    _inside("events", "events", "Proposition A.1", _EVENTS, at_least(1.0)),
    _lemma("a10", "Lemma A.10", "largest cluster sum ÷ its bound", at_most(1.0)),
    _lemma("a11", "Lemma A.11", "least own cluster sum ÷ its bound", at_least(1.0)),
    _lemma("a12", "Lemma A.12", "least test margin minus its bound", at_least(0.0)),
    _lemma("d2", "Lemma D.2", "largest |N(x)| on test points", at_most(2.0)),
    _lemma("d3", "Lemma D.3", "least ⟨w_j, x⟩ + b_j minus its bound", at_least(0.0)),
    _lemma("d4", "Lemma D.4", "least ±⟨w_j, u⟩ minus its bound", at_least(0.0)),
    _inside("error", "excess_error", "Theorem A.1", _ERROR, at_most(0.0)),
    _inside("robust-exists", "robust_exists", "Theorem 4.1", _ROBUST, at_least(1.0)),
    _inside("printed", "printed_rate", "Theorem 4.2, Appendix D", _PRINTED, at_least(1.0)),
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
    title="The theorems audited: premises, events, lemmas, conclusions",
    scales={
        "quick": [
            Bracketed.within(radius_points=10),
            Bracketed.within(3000, 8, radius_points=10),
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
    about="Assumption 2.2 with the printed Δ and that of the sample, events P1-P6, Lemmas A.10-A.12, D.2-D.4, Theorems 3.1, 4.1, 4.2.",
)
