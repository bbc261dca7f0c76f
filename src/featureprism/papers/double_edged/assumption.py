"""The theorems audited: Assumption 2.2 with its slack, the events, the lemmas and every conclusion at the exact KKT point."""

from math import inf, sqrt

import torch

from featureprism.attacks import flipping_norm
from featureprism.certificates import robust_radius
from featureprism.networks import TwoLayerNet, robust_margin_classifier
from featureprism.papers.double_edged.robustness import CELLS, printed_z
from featureprism.papers.double_edged.setting import (
    EXACT_KINK,
    Problem,
    error_of,
    on_sphere,
    problem,
    theory_setting,
    usual,
    within,
)
from featureprism.probes import KKTAudit, cluster_sums, kkt_audit
from featureprism.probes.kkt import neuron_activity
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.theory import double_edged as theory
from featureprism.training import max_margin_network


def measure_assumption(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Premises, events, lemmas and conclusions of all theorems at the exact KKT point of one setting."""
    data = problem(setting, seed)
    x, y = data.train.x, data.train.y
    sizes = theory_setting(setting, data.clusters)
    measured = theory.on_sample(sizes, data.train)
    net = max_margin_network(x, y).net
    audit = kkt_audit(net, x, y, tolerance=EXACT_KINK)
    progress(0.5)
    premises = theory.assumption_2_2(sizes)
    events = theory.sample_events(sizes, data.train)
    row: Row = {
        "kind": "audit",
        "assumption": theory.holds(premises),
        "crowding": sizes.crowding,
        "measured_crowding": measured.crowding,
        "measured_assumption": measured.crowding <= 0.1,
        "failure_probability": theory.failure_probability(sizes),
        "events": theory.holds(events),
        "stationarity": audit.stationarity,
        "error": error_of(net, data.test),
        "error_bound": theory.test_error_bound(sizes),
        **_lemmas(net, data, measured, audit),
    }
    row |= _conclusions(net, data, sizes, setting["radius_points"])
    rows = premises + theory.assumption_2_2(measured)[:1] + theory.size_conditions(sizes) + events
    progress(1.0)
    return [row, *(p.as_row() for p in rows)]


@torch.no_grad()
def _lemmas(net: TwoLayerNet, data: Problem, s: theory.Setting, audit: KKTAudit) -> Row:
    """Lemmas A.10-A.12, D.2-D.4 with the Δ of the sample: measured ÷ bound, or the least of both sides' difference."""
    x, y, cluster = data.train.x, data.train.y, data.train.cluster
    sums = cluster_sums(net, x, y, cluster, audit)
    positive = data.clusters.labels > 0
    own = torch.where(positive, sums[:, 0], sums[:, 1])
    weighted = audit.multipliers @ neuron_activity(net, x, audit) * net.a.abs()
    inputs = data.test.x @ net.W.T + (0 if net.b is None else net.b)
    u = theory.linear_direction(data.clusters.mu, data.clusters.labels)
    toward = (net.W @ u) * torch.sign(net.a)
    margins = data.test.y * net(data.test.x)
    return {
        "a10": float(sums.max()) / theory.largest_sum(s),
        "a11": float(own.min()) / theory.least_own_sum(s),
        "own_sum_times_d": float(own.mean()) * (s.dim + 1),
        "a12": float(margins.min()) - theory.least_test_margin(s),
        "d2": float(margins.abs().max()),
        "d3": float((inputs - theory.least_input(s) * weighted).min()),
        "d4": float((toward - theory.alignment_room(s) * weighted).min()),
        "room": theory.alignment_room(s),
    }


def _conclusions(net: TwoLayerNet, data: Problem, s: theory.Setting, points: int) -> Row:
    """What Theorems 4.1 and 4.2 promise: the constructed network proven at √d/8, the KKT network flipped by the printed z."""
    robust = robust_margin_classifier(data.clusters.mu, data.clusters.labels)
    x, y = data.test.x[:points], data.test.y[:points]
    bracket = robust_radius(robust, x, y, gap=0.5, seconds_per_point=inf, max_cells=CELLS)
    proven, _ = bracket.accuracy(torch.tensor([theory.PROMISED_ROBUST * sqrt(s.dim)]).double())
    u = theory.linear_direction(data.clusters.mu, data.clusters.labels)
    critical = theory.critical_norm(s.dim, s.num_clusters)
    return {
        "robust_exists": float(proven[0]),
        "critical": flipping_norm(net, data.test.x, data.test.y, u) / critical,
        **printed_z(net, data, s, u),
    }


def _audit_premises(row: Row) -> bool:
    """Whether a setting satisfies the assumption and all conclusions hold there."""
    lemmas = row["a10"] <= 1 and row["a11"] >= 1 and row["a12"] >= 0 and row["d2"] <= 2
    lemmas = lemmas and row["d3"] >= 0 and row["d4"] >= 0
    theorems = row["error"] <= row["error_bound"] and row["robust_exists"] == 1
    flipped = row["printed_applies"] and row["printed_rate"] == 1
    return row["assumption"] and row["events"] and lemmas and theorems and flipped


def _claims_assumption(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "audit")
    inside = [r for r in found if r["assumption"]]
    outside = [r for r in found if not r["assumption"]]

    def worst(key: str, pick) -> list[float]:
        return [pick(r[key] for r in inside if r["seed"] == s) for s in seeds_of(inside)]

    lemmas = [
        ("a10", "Lemma A.10", "largest cluster sum ÷ its bound", max, "<=", 1.0),
        ("a11", "Lemma A.11", "least own cluster sum ÷ its bound", min, ">=", 1.0),
        ("a12", "Lemma A.12", "least test margin minus its bound", min, ">=", 0.0),
        ("d2", "Lemma D.2", "largest |N(x)| on test points", max, "<=", 2.0),
        ("d3", "Lemma D.3", "least ⟨w_j, x⟩ + b_j minus its bound", min, ">=", 0.0),
        ("d4", "Lemma D.4", "least ±⟨w_j, u⟩ minus its bound", min, ">=", 0.0),
    ]
    return [
        judge(
            "assumption-2-2.holds",
            "Assumption 2.2",
            "share of the settings inside the assumption at which every event, lemma and conclusion holds",
            [
                sum(_audit_premises(r) for r in inside if r["seed"] == s)
                / max(1, sum(r["seed"] == s for r in inside))
                for s in seeds_of(found)
            ],
            ">=",
            1.0,
            "the printed z is longer than the points there: Theorem 4.2's conclusion is met, but says little",
        ),
        *(
            judge(
                f"assumption-2-2.{key}", source, f"{text}, Δ of the sample", worst(key, pick), relation, bound
            )
            for key, source, text, pick, relation, bound in lemmas
        ),
        judge(
            "assumption-2-2.sums",
            "Lemmas A.10, A.11, sharp",
            "(d + 1) × mean own cluster sum inside the assumption (1 as σ → 0)",
            worst("own_sum_times_d", max),
            "in",
            (0.95, 1.05),
        ),
        judge(
            "assumption-2-2.usual",
            "Assumption 2.2",
            "c' ÷ 1/10 in the usual setting (above 1: outside)",
            [10 * r["crowding"] for r in outside if r["name"] == "usual"],
            ">=",
            1.0,
            "∞ where Δ exceeds d; yet test error and critical norm are the same there: the assumption is far from necessary",
        ),
        judge(
            "assumption-2-2.outside",
            "Theorems 3.1 and 4.2",
            "critical norm ÷ √(d/k) outside the assumption, the one farthest from 1",
            [
                max((r["critical"] for r in outside if r["seed"] == s), key=lambda v: abs(v - 1))
                for s in seeds_of(outside)
            ],
            "in",
            (0.9, 1.1),
        ),
    ]


ASSUMPTION_2_2 = Experiment(
    id="double-edged/assumption-2-2",
    source="Frei et al. 2023, Assumption 2.2 and Appendices A, D",
    title="The theorems audited: premises, events, lemmas, conclusions",
    scales={
        "quick": [within(radius_points=10), within(3000, 8, radius_points=10), usual(radius_points=10)],
        "standard": [
            *(within(d, k, radius_points=50) for d, k in ((3000, 4), (3000, 8), (6000, 16))),
            usual(radius_points=50),
            on_sphere(radius_points=50),
        ],
        "paper": [
            *(within(d, k, radius_points=200) for d, k in ((3000, 4), (3000, 8), (6000, 16), (10000, 26))),
            usual(3072, 10, radius_points=200),
        ],
    },
    measure=measure_assumption,
    claims=_claims_assumption,
    about="Assumption 2.2 with the printed Δ and that of the sample, events P1-P6, Lemmas A.10-A.12, D.2-D.4, Theorems 3.1, 4.1, 4.2.",
)
