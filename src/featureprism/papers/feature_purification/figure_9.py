"""Figure 9: four paths to or away from pure features."""

from dataclasses import replace
from typing import Any

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_purification.measures import (
    LEARNED,
    MIXED,
    O_SMALL,
    PURIFIED,
    SMALL,
    at_stage,
    bench,
    network_row,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    clean_phase,
    fast_gradient,
    later_phase,
    pure_start,
    scales,
    start,
    train,
    trained,
)

AFTER_LOTTERY = "adversarial after a clean lottery"
LOTTERY_SHARE = 0.6  # of the clean steps, before the radius of the adversary is raised


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """Pure against dense features along four paths."""
    on, adversary = bench(s, seed), fast_gradient(s)
    clean, lottery_steps = clean_phase(s), round(LOTTERY_SHARE * s.steps)
    ramp = [
        replace(clean, steps=lottery_steps),
        replace(clean, steps=s.steps - lottery_steps, perturb=adversary, ramp=(0.0, 1.0)),
        later_phase(s, adversary),
    ]
    nets = {
        "clean": trained(s, seed, "clean"),
        "clean, then adversarial": trained(s, seed, "adversarial"),
        AFTER_LOTTERY: train(s, start(s, seed), ramp, seed, "ramp").last,
        "pure start": pure_start(s, seed),
        "pure start, clean": trained(s, seed, "pure clean"),
        "pure start, clean, adversarial": trained(s, seed, "pure adversarial"),
    }
    context.progress(0.6)
    rows = [network_row(stage, net, on, s, seed) for stage, net in nets.items()]
    return rows + premise_rows(s, on)


MIXTURE = "(d/k) β/α of large neurons"
CLAIMS = (
    Claim(
        "pure-start",
        source="Section 6.2, Figure 9",
        says="A network made of pure features withstands the direction Mw* that breaks cleanly trained networks.",
        quantity="accuracy under -y Mw* at τ ÷ accuracy without attack, of the pure network",
        bound=at_least(0.9),
        because="one point in ten may lie close to the boundary",
        value=lambda rows: at_stage("pure start", "universal")(rows) / at_stage("pure start", "clean")(rows),
    ),
    Claim(
        "pure-start-mixture",
        source="Section 6.2, Figure 9",
        says="Clean training adds a dense mixture of the order k/d even to a network that starts from pure features.",
        quantity=f"{MIXTURE} after clean training from pure features",
        bound=between(0.3, 2.0),
        because="the order k/d with a constant near 1, of which a hundred steps reach a third",
        value=at_stage("pure start, clean", "mixture"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "pure-start-after",
        source="Section 6.2, Figure 9",
        says="Clean training makes a network that starts from pure features as fragile as any other.",
        quantity="share of points still correct under -y Mw* at the radius max{k^-(0.5+10c), √d/k²}",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=at_stage("pure start, clean", "universal_far"),
        premises=requires(*MIXED),
        note=lambda rows: f"{at_stage('pure start', 'universal_far')(rows).mean():.2f} at the pure start",
    ),
    Claim(
        "pure-start-purified",
        source="Section 6.2, Figure 9",
        says="Adversarial training takes the dense mixture away again.",
        quantity=f"{MIXTURE} after clean and then adversarial training from pure features",
        bound=at_most(0.3),
        because="less than a third of the mixture of clean training",
        value=at_stage("pure start, clean, adversarial", "mixture"),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "after-lottery",
        source="Section 4, footnote 14",
        says="An adversary whose radius grows while the features are still small prevents the mixture from forming.",
        quantity=f"{MIXTURE} when the radius is raised after 60 % of clean training",
        bound=at_most(0.3),
        because="less than a third of the mixture of clean training",
        value=at_stage(AFTER_LOTTERY, "mixture"),
        origin="featureprism",
        premises=requires(*PURIFIED),
    ),
)


def draw(rows: Rows) -> Any:
    """Purity and accuracies at the end of every path."""
    from featureprism.papers.feature_purification.drawing import stage_bars

    keys = {"purity": "purity", "universal direction": "universal", "all attacks": "worst"}
    return stage_bars(rows, rows.of("network").distinct("stage"), keys, "purity; accuracy at τ")


FIGURE_9 = Experiment(
    id="feature-purification/figure-9",
    source="Allen-Zhu & Li 2020, Figure 9",
    title="Four paths: clean, adversarial after clean, adversarial after a clean lottery, clean from pure features",
    scales=scales(Battery, adversarial_steps=200),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "Even a start of pure features becomes dense under clean training. The third path leaves clean training after 60 % of its steps"
        " and raises the radius of the adversary from 0; at full radius from the first step all neurons die."
    ),
)
