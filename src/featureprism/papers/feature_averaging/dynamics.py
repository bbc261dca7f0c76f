"""Section 5: how margins grow with time, with two labels and with a label for each cluster."""

from typing import Any

import torch

from featureprism._progress import part
from featureprism.lab import Claim, Experiment, Rows, below
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import NETWORKS
from featureprism.papers.feature_averaging.setting import Baseline, k_class_start, problem, two_class_start
from featureprism.training import first_layer_descent


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """Mean margins of both networks along training beside their laws."""
    data = problem(s, seed)
    train = data.train
    times = sorted({round(s.steps * (i / 20) ** 2) for i in range(1, 21)})
    options = {"step_size": s.step_size, "steps": s.steps, "record": times}
    first, second = part(context.progress, 0, 0.5), part(context.progress, 0.5, 1)
    two = first_layer_descent(two_class_start(s, seed), train.x, train.y, **options, progress=first)
    fine = first_layer_descent(k_class_start(s, seed), train.x, train.cluster, **options, progress=second)
    two_rate, fine_rate = theory.growth_rate(s, s.per_class), theory.growth_rate(s, s.group)
    rows: list[Row] = []
    for time, merged, separate in zip(two.times, two.snapshots, fine.snapshots, strict=True):
        with torch.no_grad():
            margin = float((train.y * merged(train.x)).mean())
            logit = float(separate(train.x).gather(1, train.cluster.unsqueeze(1)).mean())
        row = {"kind": "growth", "time": time}
        law = theory.two_class_margin(two_rate, time)
        rows.append({**row, "network": "two-class", "margin": margin, "law": law})
        law = theory.k_class_margin(fine_rate, time, s.num_clusters)
        rows.append({**row, "network": "k-class", "margin": logit, "law": law})
    return rows


def final_error(rows: Rows, network: str) -> Values:
    """|mean margin ÷ law - 1| at the end of training."""
    return rows.of("growth", network=network).per_seed(
        lambda run: abs(run.column("margin")[-1] / run.column("law")[-1] - 1)
    )


CLAIMS = (
    Claim(
        "two-class",
        source="Section 5, sharp",
        says="With two labels, the mean margin q of the training points follows q + e^q = 1 + Ct.",
        quantity="|mean margin ÷ law - 1| at the end of training",
        formula=r"q + e^q = 1 + Ct,\qquad C = \frac{\eta d}{m}\Bigl(\frac1k + \frac1n\Bigr)",
        bound=below(0.008),
        because="eight in a thousand, from 300 steps at the quick scale to 10 000 at the paper scale",
        value=lambda rows: final_error(rows, "two-class"),
        origin="featureprism",
    ),
    Claim(
        "k-class",
        source="Section 5, sharp",
        says="With a label for each cluster, the mean logit q of the true label follows q + e^q/(k-1) = 1/(k-1) + Ct.",
        quantity="|mean logit of the true label ÷ law - 1| at the end of training",
        formula=r"q + \frac{e^q}{k-1} = \frac{1}{k-1} + Ct,\qquad C = \frac{\eta d}{h}\Bigl(\frac1k + \frac1n\Bigr)",
        bound=below(0.008),
        because="eight in a thousand, from 300 steps at the quick scale to 10 000 at the paper scale",
        value=lambda rows: final_error(rows, "k-class"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """Margins along training and their laws."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels

    figure, (axes,) = panels(1, width=4.4, height=3.0)
    for colour, name in zip(COLOURS, ("two-class", "k-class"), strict=False):
        own = rows.of("growth", network=name)
        x, low, mean, high = over_seeds(own, "time", "margin")
        band(axes, x, low, mean, high, colour, NETWORKS[name])
        x, _, law, _ = over_seeds(own, "time", "law")
        axes.plot(x, law, ":", color="black", label="law" if name == "k-class" else None)
    axes.set(xlabel="steps", ylabel="mean margin")
    axes.legend()
    return figure


DYNAMICS = Experiment(
    id="feature-averaging/dynamics",
    source="Li et al. 2025, Section 5",
    title="Margins grow like the logarithm of ηdt/(km)",
    scales={
        "quick": [Baseline(steps=300)],
        "standard": [Baseline(steps=2000)],
        "paper": [Baseline(steps=10_000)],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="Mean margins along training and the closed laws; the paper's bounds ln(ηt)/4 and 4 ln(t+1) drop the factor d/(km).",
)
