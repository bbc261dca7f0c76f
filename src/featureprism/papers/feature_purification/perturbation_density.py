"""Figure 7 on sparse coding data: perturbations are dense before adversarial training and sparse after it."""

from dataclasses import replace
from typing import Any

import torch

from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification.measures import BROKEN, PURIFIED, bench, premise_rows
from featureprism.papers.feature_purification.setting import Battery, robustness, trained
from featureprism.probes import purification as probes

SHARES = torch.linspace(0, 1, 21, dtype=torch.float64)


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """PGD perturbations before and after adversarial training, written in the dictionary."""
    on = bench(s, seed)
    rows: list[Row] = []
    for stage in ("clean", "adversarial"):
        net = trained(s, seed, f"pure {stage}")
        context.progress(0.4 if stage == "clean" else 0.9)
        delta = robustness(net, on.test, on.problem, s, seed).delta
        spread = probes.participation(delta, on.problem.M) / s.dim
        on_support = probes.mass_on_support(delta, on.test.z, on.problem.M)
        rows.append(
            {
                "kind": "density",
                "stage": stage,
                "participation": float(spread.median()),
                "on_support": float(on_support.median()),
            }
        )
        rows += [
            {"kind": "quantile", "stage": stage, "share": q, "participation": v}
            for q, v in zip(SHARES.tolist(), torch.quantile(spread, SHARES).tolist(), strict=True)
        ]
    return rows + premise_rows(s, on)


def density(stage: str, key: str):
    """The value of a claim: what was measured of the perturbations of a network."""

    def value(rows: Rows) -> Values:
        return rows.of("density", stage=stage).per_seed(key)

    return value


def _over_support(rows: Rows) -> Values:
    """Features that a perturbation of the purified network is spread over ÷ those that a point has, E‖z‖₀ = large + small·k."""
    spread, d, k, large, small = (
        density("adversarial", key)(rows) for key in ("participation", "dim", "sparsity", "large", "small")
    )
    return spread * d / (large + small * k)


CLAIMS = (
    Claim(
        "before",
        source="Section 5.1, Figure 7",
        says="The perturbations that fool a cleanly trained network are dense: they use features that the point does not have.",
        quantity="share of features that carry a PGD perturbation (participation ratio ÷ d), median over points",
        bound=at_least(1 / 3),
        because="a Gaussian vector has 1/3",
        value=density("clean", "participation"),
        premises=requires(*BROKEN),
    ),
    Claim(
        "after",
        source="Section 5.1, Figure 7",
        says="The perturbations that are left after adversarial training are as sparse as the points themselves.",
        quantity="number of features that carry a PGD perturbation (participation ratio) ÷ mean number of features of a point,"
        " median over points",
        bound=at_most(2.0),
        because="sparse as a point, up to a factor of two",
        value=_over_support,
        premises=requires(*PURIFIED),
    ),
    Claim(
        "support",
        source="Section 5.1, Figure 7",
        says="Adversarial training moves the perturbations onto the features that a point has.",
        quantity="increase of the share of ‖δ‖² on features of the point, after minus before adversarial training",
        bound=above(0.2),
        because="a fifth of the energy is far more than the noise over points",
        value=lambda rows: density("adversarial", "on_support")(rows) - density("clean", "on_support")(rows),
        premises=requires(*PURIFIED),
    ),
)


def draw(rows: Rows) -> Any:
    """Distribution of the participation ratio before and after adversarial training."""
    from featureprism.lab.style import COLOURS, over_seeds, panels
    from featureprism.papers.feature_purification.drawing import STAGES

    figure, (axes,) = panels(1, width=4.4, height=2.9)
    for colour, stage in zip(COLOURS, ("clean", "adversarial"), strict=False):
        q, _, middle, _ = over_seeds(rows.of("quantile", stage=stage), "share", "participation")
        axes.plot(middle, q, color=colour, label=STAGES[stage])
    axes.set(
        xlabel="participation ratio of perturbations ÷ d", ylabel="share of points below", xlim=(0, 1.03)
    )
    axes.legend()
    return figure


MIXED = Battery(  # inside Theorem E.1: mixtures are large enough to break the clean network
    dim=100,
    sparsity=9,
    width=100,
    noise=0.0,
    penalty=0.07,
    bias_cap=0.15,
    radius=0.1,
    step_size=1.0,
    adversarial_steps=600,
    batch=2500,
    test_points=200,
)
PERTURBATION_DENSITY = Experiment(
    id="feature-purification/perturbation-density",
    source="Allen-Zhu & Li 2020, Figure 7",
    title="Adversarial perturbations are dense before adversarial training and sparse after",
    scales={"quick": [MIXED], "standard": [replace(MIXED, test_points=400, attack_steps=20)]},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Participation ratio (Σc²)²/Σc⁴ of the coefficients of PGD perturbations in the dictionary: d for a perturbation spread over"
        " all features, 1 for a single one. The networks start from pure features at d = 100, k = 9 without input noise, where clean"
        " training adds mixtures that break it (Theorem E.1)."
    ),
)
