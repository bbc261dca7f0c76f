"""What the networks of the zoo are worth: accuracy, and accuracy under attack, beside both controls.

The claims speak of these very networks, so that draws of test images decide them; the other items speak of training.
"""

from dataclasses import dataclass, replace

import numpy as np

from featureprism.attacks.images import decided
from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, Values, at_least
from featureprism.papers.feature_purification.deep_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROL_CLAIMS,
    CONTROL_TOLD,
    MAIN,
    RANDOM,
    RESNETS,
    SHIPPED_ABOUT,
    WITHOUT_NOISE,
    Setting,
    accuracies,
    four,
    images_of,
    weights_told,
)
from featureprism.records import Row

SOURCE = "feature-purification, Table 1 (networks of the zoo)"
LEAST = {"alexnet": 0.70, "wrn-10-1": 0.75}  # accuracy below which a network tells little
FAR = 0.15  # what adversarial training must add to robust accuracy


@dataclass(frozen=True, kw_only=True)
class Worth(Setting):
    """Accuracy on the test images, robust accuracy on the first few of them."""

    test_images: int = 1000
    attacked: int = 100


def measure(s: Worth, seed: int, context: Context) -> list[Row]:
    """Clean network, both controls and the robust one, under ℓ2 perturbations of radius 1 without noise."""
    data = images_of(s, seed, context)
    few = replace(data, x_test=data.x_test[: s.attacked], y_test=data.y_test[: s.attacked])
    nets = four(s, data, seed, context.within(0, 0.5))
    rows: list[Row] = []
    for index, (name, net) in enumerate(nets.items()):
        right = decided(net, data.x_test) == data.y_test
        held = accuracies(net, s, few, WITHOUT_NOISE[MAIN], seed)
        told = {"accuracy": float(right.double().mean()), "robust": held["robust"]}
        rows.append({"kind": "worth", "training": name, **told})
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


def _told(rows: Rows) -> str:
    parts = rows.of("worth").groups("network", "training").items()
    shares = ", ".join(
        f"{network} {training} {own.column('robust').mean():.2f}" for (network, training), own in parts
    )
    return f"robust: {shares}{weights_told(rows)}"


CLAIMS = (
    *(
        Claim(
            f"accuracy-{network}",
            SOURCE,
            f"accuracy of the shipped clean {network} on test images",
            lambda rows, network=network: accuracy(rows, network),
            at_least(least),
            "featureprism",
        )
        for network, least in LEAST.items()
    ),
    *(
        Claim(
            name,
            SOURCE,
            f"robust accuracy (ℓ2, radius 1) of shipped networks after adversarial training minus after {told}, less of two families",
            lambda rows, other=other: gain(rows, other),
            at_least(FAR),
            "featureprism",
            note=_told,
        )
        for name, other, told in (
            ("robust", CLEAN, "clean training"),
            *((name, control, CONTROL_TOLD[control]) for name, control in CONTROL_CLAIMS.items()),
        )
    ),
)
ZOO = Experiment(
    id="feature-purification/zoo",
    source=SOURCE,
    title="What the shipped networks are worth",
    scales={
        "quick": [
            Worth(**(ALEXNET | ALEXNET_QUICK)),
            Worth(zoo=RESNETS, network="wrn-10-1", factor=1.0),
        ]
    },
    measure=measure,
    claims=CLAIMS,
    long=True,
    about="Accuracy on a thousand test images for each seed; robust accuracy on a hundred of them, by PGD on the cross-entropy and on"
    f" the margin. {SHIPPED_ABOUT} The claims speak of these networks alone.",
)
