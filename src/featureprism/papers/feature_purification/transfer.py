"""Section 6.2: perturbations travel from one clean network to another."""

from typing import Any

import torch

from featureprism.attacks.universal import transfer
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, at_least, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification.measures import BROKEN, PURIFIED, bench, premise_rows
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    accuracy,
    robustness,
    scales,
    trained,
)
from featureprism.seeds import generator_for


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """Perturbations of one clean network on another with its own start and data, and on the purified one."""
    on = bench(s, seed)
    x, y, ball = on.test.x.double(), on.test.y.double(), LpBall(2, s.radius)
    net, peer = trained(s, seed, "clean"), trained(s, seed, "clean", peer=1)
    context.progress(0.6)
    noise = torch.randn(x.shape, generator=generator_for("direction", seed), dtype=torch.float64)
    moves = {"attack": robustness(net, on.test, on.problem, s, seed).delta, "random": ball.stretch(noise)}
    targets = {"itself": net, "another seed": peer, "purified": trained(s, seed, "adversarial")}
    rows: list[Row] = [
        {
            "kind": "transfer",
            "target": target,
            "source": source,
            "accuracy": float((~transfer(delta, other, x, y, ball).flipped).double().mean()),
            "clean": accuracy(other, on.test.x, on.test.y),
        }
        for target, other in targets.items()
        for source, delta in moves.items()
    ]
    return rows + premise_rows(s, on)


def _kept(target: str, source: str):
    """Accuracy of a network under perturbations ÷ without them."""

    def value(rows: Rows) -> Values:
        part = rows.of("transfer", target=target, source=source)
        return part.per_seed("accuracy") / part.per_seed("clean")

    return value


def _carried(rows: Rows) -> Values:
    """The loss of accuracy on another network ÷ that on the network the perturbations were made for."""
    return (1 - _kept("another seed", "attack")(rows)) / (1 - _kept("itself", "attack")(rows))


CLAIMS = (
    Claim(
        "accuracy",
        source="Section 6.2",
        says="Perturbations that fool one clean network fool another one with another start and other data.",
        quantity="loss of accuracy on the other network ÷ on the network that the perturbations were made for",
        bound=at_least(0.7),
        because="the shared dense direction carries most of the effect",
        value=_carried,
        premises=requires(*BROKEN),
        note=lambda rows: (
            f"random perturbations of the same norm leave {_kept('another seed', 'random')(rows).mean():.2f} of its accuracy"
        ),
    ),
    Claim(
        "purified-share",
        source="Theorem 5.3(b)",
        says="Perturbations that fool a clean network do little to the network that adversarial training makes of it.",
        quantity="accuracy of the adversarially trained network under perturbations of the clean one ÷ without them",
        bound=at_least(0.9),
        because="nine tenths of the accuracy of that network, which is below 1 at this size",
        value=_kept("purified", "attack"),
        premises=requires(*PURIFIED),
    ),
)


def draw(rows: Rows) -> Any:
    """Accuracy of three networks under the perturbations of one, and under random ones."""
    from featureprism.lab.style import panels
    from featureprism.papers.feature_purification.drawing import bars, mean

    figure, (axes,) = panels(1, width=6.0, height=2.4)
    targets = rows.of("transfer").distinct("target")
    groups = {
        text: [mean(rows.of("transfer", target=t, source=source), "accuracy") for t in targets]
        for text, source in (("its perturbations", "attack"), ("random ones", "random"))
    }
    bars(axes, targets, groups, "accuracy")
    return figure


TRANSFER = Experiment(
    id="feature-purification/transfer",
    source="Allen-Zhu & Li 2020, Section 6.2",
    title="Perturbations travel from one clean network to another",
    scales=scales(Battery),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about="The dense direction does not depend on the start or the sample: what fools one clean network fools all of them.",
)
