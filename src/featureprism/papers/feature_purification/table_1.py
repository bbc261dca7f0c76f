"""Table 1: clean and adversarial training against the four attackers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from featureprism.lab import Experiment, Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_purification.gallery import NAMES
from featureprism.papers.feature_purification.image_setting import (
    ALEXNETS,
    ATTACKERS,
    CLEAN,
    CONTROL,
    FROM_CLEAN,
    KNOWN,
    NOISE,
    RANDOM,
    SHIPPED_ABOUT,
    SIZES,
    WITHOUT_NOISE,
    ImageSetting,
    accuracies,
    images_of,
    shipped,
    trained,
)
from featureprism.probes.auto_attack import auto_attack_survivors, has_auto_attack

TRAININGS = (CLEAN, RANDOM, FROM_CLEAN, CONTROL, NOISE)


@dataclass(frozen=True, kw_only=True)
class ColumnSetting(ImageSetting):
    """One column of the table."""

    attacker: str


def measure(s: ColumnSetting, seed: int, context: Context) -> list[Row]:
    """One attacker: the networks, their accuracy, and their accuracy under the attack; the zoo has none from random weights."""
    data, attack = images_of(s, seed, context), KNOWN[s.attacker]
    from_zoo = shipped(s, data, CLEAN) is not None
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
    return tuple(WITHOUT_NOISE.get(name, name) if size.get("zoo") else name for name in ATTACKERS)


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


QUICK: Row = {"zoo": ALEXNETS, "test_images": 100}  # the family with a network for each attacker
TABLE_1 = Experiment(
    id="feature-purification/table-1",
    source="Allen-Zhu & Li 2020, Table 1",
    title="Clean and adversarial training against four attackers",
    scales={
        scale: [ColumnSetting(**size, attacker=attacker) for attacker in _columns(size)]
        for scale, size in {**SIZES, "quick": QUICK}.items()
    },
    measure=measure,
    claims=(),
    slow=True,
    draw=draw,
    about=(
        "CIFAR-10 (or what stands for it: see the source of each row). Robust accuracy is the share of test images that are right"
        " before and after PGD at the attacker's radius; ℓ2(ε, σ) also asks for the decision under Gaussian noise. The"
        " paper's ResNet-34 has"
        " 0.0 after clean training and 0.42 after adversarial training against ℓ2(1, 0.25). "
        + SHIPPED_ABOUT
        + " Quick has the half-width AlexNets, the only family with one network for each attacker; networks from random weights are"
        " trained at the larger scales only."
    ),
)
