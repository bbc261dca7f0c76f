"""Theorem 5.2: clean training adds a dense mixture to every feature."""

import math
from typing import Any

from featureprism.data import SparseCoding, SparseSample
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import (
    FEW,
    LEARNED,
    MIXED,
    bench,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import FAMILY, Battery, clean_run, scales
from featureprism.probes import purification as probes


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """The mixtures along clean training in units of what Theorem 5.2 says of them, and how they answer to data at its end."""
    on, run = bench(s, seed), clean_run(s, seed)
    context.progress(0.8)
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        W = net.W.detach()
        rows.append(
            {
                "kind": "time",
                "time": time,
                "dense_share": probes.share_along(W, on.problem.dense_direction),
                "mixture": probes.large_neurons(W, on.problem).ratio * s.dim / s.sparsity,
                "largest": probes.mixture(W, on.problem, FEW).largest_beta / theory.beta_bound(s),
            }
        )
    rows.append({"kind": "response", "ratio": _response(run.last, on.problem, on.many)})
    return rows + premise_rows(s, on)


def _response(net: SymmetricNet, problem: SparseCoding, test: SparseSample) -> float:
    """How much more the mixtures v_i answer to the dense direction than to data of equal norm, median over neurons. Eq. (6.2)."""
    parts = probes.mixture(net.W.detach(), problem)
    V = (parts.coefficients * ~parts.own * problem.w) @ problem.M.T
    direction = problem.dense_direction / problem.dense_direction.norm()
    on_data = ((test.x @ V.T).abs() / test.x.norm(dim=1, keepdim=True)).median(dim=0).values
    ratio = (V @ direction).abs() / on_data.clamp_min(1e-12)
    live = probes.firing(net, test.x) > 0
    return float(ratio[live].median()) if bool(live.any()) else math.nan


def _at(rows: Rows, key: str, time: int = -1) -> Values:
    """A value at the last recorded time, or another one."""
    return rows.of("time").per_seed(lambda one: one.column(key)[time])


CLAIMS = (
    Claim(
        "growth",
        source="Section 6.2",
        says="Clean training turns the network towards the dense direction Mw*.",
        quantity="growth factor of the share of Σ‖w_i‖² along Mw* in clean training",
        bound=at_least(10.0),
        because="a random start has a share of 1/d; one order of magnitude more is no chance",
        value=lambda rows: _at(rows, "dense_share") / _at(rows, "dense_share", 0),
        premises=requires(*MIXED),
    ),
    Claim(
        "response",
        source="(6.2)",
        says="The dense mixtures answer much more to the direction Mw* than to data of equal norm, which is why an"
        " attacker sees them and data does not.",
        quantity="response of a neuron's mixture to Mw* ÷ to data of equal norm, median over neurons",
        bound=at_least(3.0),
        because="the paper has √d, 10 at d = 100; a third of it is left for the noise of neurons",
        value=lambda rows: rows.of("response").per_seed("ratio"),
        premises=requires(*MIXED),
    ),
    Claim(
        "uniform",
        source="Theorem 5.2, (5.1)",
        says="Beside the feature that it has learned a neuron holds every other one with a relative weight near k/d.",
        quantity="(d/k) β/α, mean over large neurons after clean training",
        bound=between(0.5, 2.0),
        because="the order k/d with a constant between 1/2 and 2; the population dynamics has 1.0",
        value=lambda rows: _at(rows, "mixture"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "largest",
        source="Theorem 5.2",
        says="Beside a constant number of features no coefficient of a neuron exceeds k/d^(1-c).",
        quantity=f"largest coefficient beside the {FEW} largest of a neuron ÷ k/d^(1-c)",
        bound=at_most(1.0),
        because=f"the theorem's bound with c = 0.001; |N_i| = O(1) is read as {FEW}",
        value=lambda rows: _at(rows, "largest"),
        premises=requires(*LEARNED),
    ),
)


def draw(rows: Rows) -> Any:
    """The mixture beside a feature, and the weight on the dense direction, along clean training."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels

    figure, (left, right) = panels(2, width=3.8, height=3.0)
    for panel, key in ((left, "mixture"), (right, "dense_share")):
        band(panel, *over_seeds(rows.of("time"), "time", key), COLOURS[0], None)
    left.set(xlabel="steps of clean training", ylabel="(d/k) β/α of large neurons")
    right.set(xlabel="steps of clean training", ylabel="share of Σ‖w_i‖² along Mw*", yscale="log")
    return figure


DENSE_MIXTURE = Experiment(
    id="feature-purification/dense-mixture",
    source="Allen-Zhu & Li 2020, Theorem 5.2",
    title="How large a dense mixture clean training adds to every feature",
    scales=scales(Battery),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "Coefficients of the neurons outside their own feature along clean training from a random start. The laws in d"
        " and k are measured by"
        " the population dynamics."
    ),
)
