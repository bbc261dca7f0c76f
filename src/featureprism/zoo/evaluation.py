"""What a network of the zoo is worth: accuracy, and accuracy under a strong attack, with 95 % intervals."""

from dataclasses import replace
from math import inf

import torch
from torch import Tensor, nn

from featureprism._progress import Progress, no_progress
from featureprism.data.images import ImageSet
from featureprism.lab.rows import Row
from featureprism.probes.image_attacks import (
    SHORT,
    ImageAttack,
    decided,
    label_loss,
    margin_loss,
    perturb,
    vanishing_share,
    wilson,
)
from featureprism.seeds import generator_for
from featureprism.zoo.members import CLASSES, Member

JUDGES = {  # the attackers that every member meets, whatever it was trained against
    "l2 1": ImageAttack(2, 1.0, steps=50, restarts=3),
    "l-infinity 8/255": ImageAttack(inf, 8 / 255, steps=50, restarts=3),
}
BATCH = 125


def standing(
    net: nn.Module, x: Tensor, y: Tensor, attack: ImageAttack, *, seed: int, progress: Progress = no_progress
) -> Tensor:
    """Which images stay right under every restart of PGD on the cross-entropy and on the margin; those that fell are left in peace.

    A short run goes first: it is all that most images of a fragile network need.
    """
    alive = decided(net, x) == y
    full = replace(attack, restarts=1)
    short = replace(full, steps=min(SHORT, full.steps))
    runs = [(loss, again, full) for loss in (margin_loss, label_loss) for again in range(attack.restarts)]
    rounds = [(margin_loss, "short", short), *runs]
    for index, (loss, again, once) in enumerate(rounds):
        generator = generator_for(f"{loss.__name__} {again}", seed)
        for few in alive.nonzero().flatten().split(BATCH):
            delta = perturb(net, x[few], y[few], once, loss=loss, generator=generator)
            alive[few] = decided(net, x[few] + delta) == y[few]
        progress((index + 1) / len(rounds))
    return alive


def judged(
    member: Member,
    net: nn.Module,
    data: ImageSet,
    *,
    num_images: int = 1000,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Row:
    """Clean accuracy on all test images; robust accuracy on the first `num_images` of them under each of JUDGES.

    `two groups`: a network of ten labels that decides between the first five classes and the last five.
    """
    net.eval()
    labels = member.labelled(data.y_test)
    x, y = data.x_test[:num_images], labels[:num_images]
    card: Row = {"accuracy": _share(decided(net, data.x_test) == labels)}
    if member.labels == CLASSES:
        halves = replace(member, labels=2).labelled
        groups = halves(torch.arange(CLASSES))
        card["two groups"] = _share(decided(net, data.x_test, groups) == halves(data.y_test))
    for index, (name, attack) in enumerate(JUDGES.items()):
        begin, size = index / len(JUDGES), 1 / len(JUDGES)
        held = standing(
            net, x, y, attack, seed=seed, progress=lambda done, b=begin, s=size: progress(b + s * done)
        )
        card[name] = _share(held) | {"steps": attack.steps, "restarts": attack.restarts, "losses": 2}
    card["zero_gradients"] = vanishing_share(net, x, y)
    return card


def _share(held: Tensor) -> Row:
    low, high = wilson(int(held.sum()), len(held))
    return {"share": float(held.double().mean()), "low": low, "high": high, "images": len(held)}
