"""Table 1: clean and adversarial training against the four attackers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification.gallery import NAMES
from featureprism.papers.feature_purification.image_setting import (
    ATTACKERS,
    CLEAN,
    CONTROL,
    FROM_CLEAN,
    KNOWN,
    MAIN,
    NOISE,
    RANDOM,
    SETS_ABOUT,
    SIZES,
    UNSMOOTHED,
    ImageSetting,
    accuracies,
    images_of,
    shipped,
    trained,
)
from featureprism.papers.feature_purification.measures import O_SMALL, SMALL
from featureprism.probes.auto_attack import auto_attack_survivors, has_auto_attack
from featureprism.zoo.files import share_weights

TRAININGS = (CLEAN, RANDOM, FROM_CLEAN, CONTROL, NOISE)


@dataclass(frozen=True, kw_only=True)
class ColumnSetting(ImageSetting):
    """One column of the table."""

    attacker: str


def measure(s: ColumnSetting, seed: int, context: Context) -> list[Row]:
    """One attacker: the networks, their accuracy, and their accuracy under the attack; the zoo has none from random weights."""
    data, attack = images_of(s, seed, context), KNOWN[s.attacker]
    from_zoo = shipped(s, data, CLEAN, seed) is not None
    trainings = [training for training in TRAININGS if not (from_zoo and training == RANDOM)]
    rows = []
    for index, training in enumerate(trainings):
        share = context.within(index / len(trainings), (index + 0.9) / len(trainings))
        net = trained(s, data, seed, training, share, s.attacker)
        row = {"kind": "accuracy", "training": training, **accuracies(net, s, data, s.attacker, seed)}
        if has_auto_attack() and not attack.noise and not from_zoo:  # minutes for each network
            kept = auto_attack_survivors(net, data.x_test, data.y_test, attack.norm, attack.eps)
            row["auto_attack"] = float(kept.double().mean())
        rows.append(row)
        context.progress((index + 1) / len(trainings))
    return rows


def _columns(size: Row) -> Sequence[str]:
    """The four attackers of the table; for networks of the zoo the same without the smoothing noise."""
    return (
        (*UNSMOOTHED, *(name for name in ATTACKERS if name.startswith("l-infinity")))
        if size.get("zoo")
        else tuple(ATTACKERS)
    )


def _at_one(rows: Rows, training: str, key: str) -> Values:
    """Accuracy after a training in the column of ℓ2 radius 1, with or without the smoothing noise."""
    column = rows.of("accuracy", training=training).where(lambda row: row["attacker"] in (MAIN, "l2 1"))
    return column.per_seed(key)


def _lost(key: str, before: str, after: str):
    """Accuracy after one training minus that after another, in the column of ℓ2 radius 1."""
    return lambda rows: _at_one(rows, before, key) - _at_one(rows, after, key)


def _most_robust(*trainings: str):
    """The largest robust accuracy over these trainings and all attackers."""

    return lambda rows: rows.of("accuracy").where(lambda row: row["training"] in trainings).largest("robust")


CLAIMS = (
    Claim(
        "clean-broken",
        source="Table 1, first row",
        says="After clean training every one of the four attackers breaks nearly all images.",
        quantity="robust accuracy of the cleanly trained network, the largest of four attackers (the paper: 0.0)",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=_most_robust(CLEAN),
    ),
    Claim(
        "controls-broken",
        source="Table 1",
        says="Neither more clean epochs nor noise of the same size make a network robust.",
        quantity="robust accuracy after either control, the largest of four attackers",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=_most_robust(CONTROL, NOISE),
        origin="featureprism",
    ),
    Claim(
        "adversarial",
        source="Table 1, last row",
        says="Adversarial training from clean weights makes the network robust.",
        quantity="robust accuracy at ℓ2 1 after adversarial minus after clean training (the paper: 0.42)",
        bound=at_least(0.1),
        because="ten of a hundred images is more than the test images of one seed leave open",
        value=_lost("robust", FROM_CLEAN, CLEAN),
    ),
    Claim(
        "price",
        source="Table 1, in brackets",
        says="Robustness costs accuracy without attack.",
        quantity="accuracy without attack, after clean minus after adversarial training (the paper: 0.28)",
        bound=above(0.0),
        because="the paper's table has a price for every attacker",
        value=_lost("clean", CLEAN, FROM_CLEAN),
    ),
)


def draw(rows: Rows) -> Any:
    """Robust accuracy (dots with 95 % intervals of one seed) and clean accuracy (small marks) for every attacker."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=6.4, height=3.0)
    attackers = rows.of("accuracy").distinct("attacker")
    for index, (training, part) in enumerate(rows.of("accuracy").groups("training").items()):
        for spot, attacker in enumerate(attackers):
            cell, x = part.having(attacker=attacker), spot + 0.15 * (index - 2)
            low, middle, high = (cell.column(f"robust{side}").mean() for side in ("_low", "", "_high"))
            axes.errorbar(
                x,
                middle,
                [[max(0.0, middle - low)], [max(0.0, high - middle)]],
                fmt="o",
                color=COLOURS[index],
                label=NAMES.get(training, training) if spot == 0 else None,
                capsize=2,
            )
            axes.plot(x, cell.column("clean").mean(), "_", color=COLOURS[index], markersize=9)
    axes.set_xticks(range(len(attackers)), attackers)
    axes.set(ylabel="accuracy", ylim=(-0.02, None), xlabel="attacker (dots: robust, dashes: clean accuracy)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


TABLE_1 = Experiment(
    id="feature-purification/table-1",
    source="Allen-Zhu & Li 2020, Table 1",
    title="Clean and adversarial training against four attackers",
    scales={
        scale: [ColumnSetting(**size, attacker=attacker) for attacker in _columns(size)]
        for scale, size in SIZES.items()
    },
    measure=measure,
    claims=CLAIMS,
    slow=True,
    shared_weights=share_weights,
    draw=draw,
    about=(
        "CIFAR-10 (or what stands for it: see the source of each row). Robust accuracy is the share of test images that are right"
        " before and after PGD at the attacker's radius; ℓ2(ε, σ) also asks for the decision under Gaussian noise. The"
        " paper's ResNet-34 has"
        " 0.0 after clean training and 0.42 after adversarial training against ℓ2(1, 0.25). "
        + SETS_ABOUT
        + " They meet all four attackers without noise. Networks from random weights, and one for each attacker, are trained at the"
        " larger scales."
    ),
)
