"""What the networks of the zoo are worth: accuracy, and accuracy under attack, beside both controls.

The claims speak of these very networks, so that draws of test images decide them.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, at_least
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification.gallery import NAMES
from featureprism.papers.feature_purification.image_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROL,
    MAIN,
    NOISE,
    RANDOM,
    RESNETS,
    WITHOUT_NOISE,
    ImageSetting,
    accuracies,
    four,
    images_of,
)
from featureprism.probes.image_attacks import decided

LEAST = {"alexnet": 0.70, "wrn-10-1": 0.75}  # accuracy below which a network says little
FAR = 0.15  # what adversarial training must add to robust accuracy


@dataclass(frozen=True, kw_only=True)
class ZooSetting(ImageSetting):
    """Accuracy on the test images, robust accuracy on the first few of them."""

    test_images: int = 1000
    attacked: int = 100


def measure(s: ZooSetting, seed: int, context: Context) -> list[Row]:
    """Clean network, both controls and the robust one, under ℓ2 perturbations of radius 1 without noise."""
    data = images_of(s, seed, context)
    few = replace(data, x_test=data.x_test[: s.attacked], y_test=data.y_test[: s.attacked])
    nets = four(s, data, seed, context.within(0, 0.5))
    rows: list[Row] = []
    for index, (name, net) in enumerate(nets.items()):
        right = decided(net, data.x_test) == data.y_test
        held = accuracies(net, s, few, WITHOUT_NOISE[MAIN], seed)
        shares = {"accuracy": float(right.double().mean()), "robust": held["robust"]}
        rows.append({"kind": "worth", "training": name, **shares})
        context.progress(0.5 + (index + 1) / (2 * len(nets)))
    return rows


def accuracy(rows: Rows, network: str) -> Values:
    """Clean accuracy of the clean network of a family, seed by seed."""
    return rows.of("worth", training=CLEAN, network=network).per_seed("accuracy")


def gain(rows: Rows, other: str) -> Values:
    """Robust accuracy after adversarial training minus after another training, the less of the two families."""
    robust = [
        [rows.of("worth", network=network, training=name).per_seed("robust") for name in (RANDOM, other)]
        for network in LEAST
    ]
    return np.min([after - before for after, before in robust], axis=0)


def _shares(rows: Rows) -> str:
    parts = rows.of("worth").groups("network", "training").items()
    return "robust: " + ", ".join(
        f"{network} {training} {part.column('robust').mean():.2f}" for (network, training), part in parts
    )


def _accurate(network: str) -> Claim:
    return Claim(
        f"accuracy-{network}",
        source="Table 1",
        says=f"The shipped clean {network} network is accurate enough to be worth attacking.",
        quantity="share of test images classified correctly",
        bound=at_least(LEAST[network]),
        because="what a network of its size reaches in a few minutes of training",
        value=lambda rows: accuracy(rows, network),
        origin="featureprism",
    )


def _robust(name: str, other: str, words: str) -> Claim:
    return Claim(
        name,
        source="Table 1",
        says=f"The shipped networks after adversarial training are far more robust than those after {words}.",
        quantity="robust accuracy (ℓ2, radius 1) minus that of the other training, the lesser of two families",
        bound=at_least(FAR),
        because="several times what another draw of test images changes",
        value=lambda rows: gain(rows, other),
        origin="featureprism",
        note=_shares,
    )


CLAIMS = (
    _accurate("alexnet"),
    _accurate("wrn-10-1"),
    _robust("robust", CLEAN, "clean training"),
    _robust("control", CONTROL, "as many more clean epochs"),
    _robust("noise", NOISE, "as many epochs with noise of the same size"),
)


def draw(rows: Rows) -> Any:
    """Accuracy and robust accuracy of each family of the zoo, training by training, with the spread over draws of test images."""
    from featureprism.lab.style import COLOURS, panels

    families = rows.of("worth").groups("network")
    figure, axes = panels(len(families), width=3.4)
    for spot, (network, family) in zip(axes, families.items(), strict=True):
        trainings = family.groups("training")
        for shift, colour, column in ((-0.2, COLOURS[0], "accuracy"), (0.2, COLOURS[1], "robust")):
            values = [part.column(column) for part in trainings.values()]
            places = np.arange(len(values)) + shift
            spread = [value.std() for value in values]
            spot.bar(places, [v.mean() for v in values], 0.4, yerr=spread, color=colour, label=column)
        spot.set(xticks=range(len(trainings)), ylim=(0, 1), title=network)
        spot.set_xticklabels([str(NAMES.get(name, name)) for name in trainings], rotation=20, fontsize=7)
    axes[0].legend(fontsize=7)
    return figure


ZOO = Experiment(
    id="feature-purification/zoo",
    source="Allen-Zhu & Li 2020, Table 1",
    title="What the shipped networks are worth",
    scales={
        "quick": [
            ZooSetting(**(ALEXNET | ALEXNET_QUICK)),
            ZooSetting(zoo=RESNETS, network="wrn-10-1", factor=1.0),
        ]
    },
    measure=measure,
    claims=CLAIMS,
    slow=True,
    draw=draw,
    about=(
        "Accuracy on a thousand test images for each seed; robust accuracy on a hundred of them, by PGD on the cross-entropy and on the"
        " margin. The claims speak of these networks alone, and not of training."
    ),
)
