"""What a network of the zoo is worth: accuracy, and accuracy under a strong attack, with 95 % intervals."""

from dataclasses import replace
from math import inf

from torch import Tensor, nn

from featureprism.attacks.images import (
    ImageAttack,
    decided,
    label_loss,
    margin_loss,
    perturb,
    vanishing_share,
    wilson,
)
from featureprism.data.images import ImageSet
from featureprism.records import Progress, Row, silent
from featureprism.seeds import generator_for

JUDGES = {  # the attackers that every member meets, whatever it was trained against
    "l2 1": ImageAttack(2, 1.0, steps=50, restarts=3),
    "l-infinity 8/255": ImageAttack(inf, 8 / 255, steps=50, restarts=3),
}
BATCH = 125


def standing(
    net: nn.Module, x: Tensor, y: Tensor, attack: ImageAttack, *, seed: int, progress: Progress = silent
) -> Tensor:
    """Which images stay right under every restart of PGD on the cross-entropy and on the margin; those that fell are left in peace."""
    alive = decided(net, x) == y
    once = replace(attack, restarts=1)
    rounds = [(loss, again) for loss in (margin_loss, label_loss) for again in range(attack.restarts)]
    for index, (loss, again) in enumerate(rounds):
        generator = generator_for(f"{loss.__name__} {again}", seed)
        for few in alive.nonzero().flatten().split(BATCH):
            delta = perturb(net, x[few], y[few], once, loss=loss, generator=generator)
            alive[few] = decided(net, x[few] + delta) == y[few]
        progress((index + 1) / len(rounds))
    return alive


def judged(
    net: nn.Module, data: ImageSet, *, num_images: int = 1000, seed: int = 0, progress: Progress = silent
) -> Row:
    """Clean accuracy on all test images; robust accuracy on the first `num_images` of them under each of JUDGES."""
    net.eval()
    x, y = data.x_test[:num_images], data.y_test[:num_images]
    told: Row = {"accuracy": _share(decided(net, data.x_test) == data.y_test)}
    for index, (name, attack) in enumerate(JUDGES.items()):
        begin, size = index / len(JUDGES), 1 / len(JUDGES)
        held = standing(
            net, x, y, attack, seed=seed, progress=lambda done, b=begin, s=size: progress(b + s * done)
        )
        told[name] = _share(held) | {"steps": attack.steps, "restarts": attack.restarts, "losses": 2}
    told["zero_gradients"] = vanishing_share(net, x, y)
    return told


def _share(held: Tensor) -> Row:
    low, high = wilson(int(held.sum()), len(held))
    return {"share": float(held.double().mean()), "low": low, "high": high, "images": len(held)}
