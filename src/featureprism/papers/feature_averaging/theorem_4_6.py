"""Theorem 4.6: how near descent comes to the averaging classifier, jointly in k, d and n."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.lab import Claim, Experiment, Rows, at_most, below, between, rate
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.features import class_shares, sphere_gap
from featureprism.papers.feature_averaging.setting import (
    OF_THEOREM_4_5,
    Baseline,
    descent,
    problem,
    two_class_start,
)
from featureprism.probes.decomposition import from_updates

RATE = 0.03  # growth of a margin in one step, C of the growth law: the first step is 1 % of 200
STEPS = 200
START = 0.01  # entries of the start in units of the step size, as at the baseline


@dataclass(frozen=True, kw_only=True)
class RepeatedProblem(Baseline):
    """The mean over several independent problems: a gap depends on how evenly the few clusters are filled."""

    draws: int = 1


def size(k: int, d: int, n: int, draws: int = 1) -> RepeatedProblem:
    """k clusters (half of them positive) with k neurons, trained until margins are about 1.7 whatever the size."""
    m = k // 2
    step_size = RATE * m / d / (1 / k + 1 / n)
    return RepeatedProblem(
        dim=d,
        positive=m,
        negative=k - m,
        points=n,
        per_class=m,
        step_size=step_size,
        start=START * step_size,
        steps=STEPS,
        draws=draws,
    )


def measure_draw(s: Baseline, seed: int) -> tuple[Row, Tensor]:
    """The gap of one problem on ‖x‖ = √d, and the λ of both classes; the centres beside."""
    data = problem(s, seed)
    mu, labels = data.clusters.mu, data.clusters.labels
    start = two_class_start(s, seed)
    run = descent(start, s, data.train.x, data.train.y)
    absolute, relative = sphere_gap(run.last.double(), mu, labels, sqrt(s.dim))
    tracked = from_updates(run.probes["slopes"][-1][0].double(), data.train, s.step_size)
    growth, opposite = class_shares(tracked.features, torch.sign(start.a.detach()), labels)
    return {"gap": relative, "absolute_gap": absolute, "lambda": growth, "opposite": opposite}, mu


def measure(s: RepeatedProblem, seed: int, context: Context) -> list[Row]:
    """The gap on ‖x‖ = √d beside its law, and the opposite-class λ that is its floor; means over the draws."""
    draws: list[Row] = []
    mu = torch.zeros(0)
    for draw in range(s.draws):
        row, mu = measure_draw(s, seed * s.draws + draw)
        draws.append(row)
        context.progress((draw + 1) / s.draws)
    mean = {name: float(np.mean([row[name] for row in draws])) for name in draws[0]}
    row = {
        "kind": "gap",
        "size": f"k={s.num_clusters} d={s.dim} n={s.points}",
        "clusters": s.num_clusters,
        **mean,
        "law": theory.approach_law(s, mean["lambda"]),
        "floor": theory.opposite_share(s.positive, s.num_clusters, s.points, s.dim),
    }
    premises = theory.premises(s, mu) + theory.training_time(s, s.steps)
    return [row, *(premise.as_row() for premise in premises)]


def before_the_floor(rows: Rows) -> Rows:
    """The runs that differ in n alone, with the fewest clusters in the most dimensions: those farthest above the floor."""
    gaps = rows.of("gap")
    if not len(gaps):
        return gaps
    few, many = min(gaps.distinct("clusters")), max(gaps.distinct("dim"))
    return gaps.having(clusters=few, dim=many)


def _law_error(rows: Rows) -> Values:
    """|gap ÷ law - 1|, the largest over sizes."""
    return rows.of("gap").per_seed(lambda run: float(np.abs(run.column("gap") / run.column("law") - 1).max()))


def _over_floor(rows: Rows) -> Values:
    """(opposite λ ÷ own λ) ÷ o, mean over sizes."""
    return rows.of("gap").per_seed(lambda run: float((run.column("opposite") / run.column("floor")).mean()))


CLAIMS = (
    Claim(
        "gap",
        source="Theorem 4.6",
        says="A network trained with two labels converges to a multiple of the averaging classifier as n grows.",
        quantity="exponent in n of the largest distance on the sphere ‖x‖ = √d, k and d fixed",
        formula=r"\inf_{C>0} \sup_{\lVert x\rVert = \sqrt d} |C f_{FA}(x) - f_\theta(x)| = o(1)",
        bound=below(0.0),
        because="o(1) is a statement about a limit, judged by the sign of its rate in n",
        value=lambda rows: rate(before_the_floor(rows), x="points", y="absolute_gap"),
        premises=OF_THEOREM_4_5,
        note="memorised noise makes the exponent -1/2 until the floor of order √(k/d) is reached; the limit is in k, d and n at once",
    ),
    Claim(
        "law",
        source="Theorem 4.6, sharp",
        says="The distance from the averaging classifier is set by memorised noise, unequal cluster sizes and what neurons have"
        " unlearned of the other class.",
        quantity="|relative distance of the weights from those of the averaging classifier ÷ the predicted distance - 1|,"
        " largest over the sizes (k, d, n)",
        formula=r"\frac{\inf_C \sup |C f_{FA} - f|}{\sup |f|} = \sqrt{2\tfrac{k}{n}\bigl(1 + (g/\lambda)^2\bigr) + o^2}",
        bound=at_most(0.2),
        because="the law is of first order in both terms, and a little too large where they are not small",
        value=_law_error,
        origin="featureprism",
    ),
    Claim(
        "floor",
        source="Theorem 4.6, sharp",
        says="More training points do not bring the network arbitrarily near to the averaging classifier: neurons keep a negative"
        " share, of order √(k/d), of the other class.",
        quantity="(coefficient of an opposite cluster ÷ coefficient of the neuron's cluster) ÷ o, mean over sizes",
        formula=r"o = \Phi(-o/s),\qquad s^2 = |J|(1+k/n)/d",
        bound=between(0.85, 1.15),
        because="fifteen percent; where few points of a cluster are still active the share is a little smaller",
        value=_over_floor,
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """The gap to f_FA beside its law, and the opposite-class λ beside its own, one colour for each size."""
    from featureprism.lab.style import COLOURS, panels, plain_ticks

    figure, axes = panels(2, width=3.6, height=3.1)
    gaps = rows.of("gap")
    pairs = (("law", "gap", "sup|C f_FA - f| ÷ sup|f|"), ("floor", "opposite", "opposite λ ÷ own λ"))
    for panel, (law, measured, name) in zip(axes, pairs, strict=True):
        for index, (sizes, own) in enumerate(gaps.groups("size").items()):
            panel.plot(
                own.column(law), own.column(measured), "o", color=COLOURS[index % len(COLOURS)], label=sizes
            )
        ends = [gaps.column(law).min(), gaps.column(law).max()]
        panel.plot(ends, ends, ":", color="black")
        panel.set(xscale="log", yscale="log", xlabel="law", ylabel=name)
        plain_ticks(
            panel,
            [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4) if ends[0] / 1.5 < tick < 1.2 * ends[1]],
        )
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7)
    return figure


# most draws where the exponent is read off, above all at its ends
QUICK = (
    size(4, 4096, 250, draws=12),
    size(4, 4096, 500, draws=3),
    size(4, 4096, 1000, draws=6),
    size(8, 4096, 500),
    size(4, 512, 2000),
    size(8, 1024, 1000),
)
MORE = (
    size(4, 4096, 2000),
    size(4, 4096, 4000),
    size(16, 4096, 1000),
    size(10, 3072, 1000),
    size(10, 3072, 10_000),
)
LARGEST = size(10, 3072, 20_000)


def _in_order(settings: tuple[RepeatedProblem, ...]) -> list[RepeatedProblem]:
    return sorted(settings, key=lambda s: (s.num_clusters, s.dim, s.points))


THEOREM_4_6 = Experiment(
    id="feature-averaging/theorem-4-6",
    source="Li et al. 2025, Theorem 4.6",
    title="How close the trained network comes to the averaging classifier",
    scales={
        "quick": list(QUICK),
        "standard": _in_order(QUICK + MORE),
        "paper": _in_order((*QUICK, *MORE, LARGEST)),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The least sup-distance on ‖x‖ = √d between the trained network (biases included) and a multiple of f_FA, for several k, d and"
        " n; margins end at about 1.7 at every size. Memorised noise makes it fall like √(k/n); what a neuron unlearns of the"
        " other class, of order √(k/d), is left."
    ),
)
