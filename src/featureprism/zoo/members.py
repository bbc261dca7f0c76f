"""Who lives in the zoo: families of networks from one start, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from torch import Tensor

from featureprism.probes.image_attacks import ImageAttack
from featureprism.training.images import Recipe

CLEAN, MORE_CLEAN, NOISE, ADVERSARIAL = "clean", "more clean epochs", "noise only", "adversarial from clean"
RANDOM = "adversarial"  # from random weights
SHAPE, CLASSES = (3, 32, 32), 10  # CIFAR-10
MAIN, THREE_STEPS = "l2 1", "l2 1, three steps"
ATTACKS: Mapping[str, ImageAttack] = {  # of training, from a random start
    MAIN: ImageAttack(2, 1.0, steps=1, step_size=1.25),
    THREE_STEPS: ImageAttack(2, 1.0, steps=3),
}


@dataclass(frozen=True, kw_only=True)
class Member:
    """A network of the zoo: its architecture and its training.

    Parameters
    ----------
    name : str
        Name of the network.
    network : str
        Its architecture.
    factor : float
        Factor of its width.
    training : str
        How it was trained, in words.
    recipe : Recipe
        Epochs, step sizes and augmentation.
    attacker : str, optional
        The adversary of its training.
    parent : str, optional
        The network whose weights it starts from; by default random weights.
    seed : int
        Seed of its training.
    labels : int
        Number of labels.
    """

    name: str
    network: str
    factor: float
    training: str
    recipe: Recipe
    attacker: str | None = None
    parent: str | None = None
    seed: int = 0
    labels: int = CLASSES

    def labelled(self, y: Tensor) -> Tensor:
        """Classes as this network knows them: where it has two labels, the first five against the last five."""
        return y * self.labels // CLASSES


def family(
    stem: str, network: str, factor: float, clean: Recipe, later: Recipe, *, attacker: str, seed: int = 0
) -> list[Member]:
    """Clean; then, all from its weights and with the same batches: adversarial, as many more clean epochs, noise of the same size."""
    first = Member(
        name=f"{stem}-clean", network=network, factor=factor, training=CLEAN, recipe=clean, seed=seed
    )
    grown = replace(first, recipe=later, parent=first.name)
    return [
        first,
        replace(grown, name=f"{stem}-adversarial-l2-1", training=ADVERSARIAL, attacker=attacker),
        replace(grown, name=f"{stem}-more-clean", training=MORE_CLEAN),
        replace(grown, name=f"{stem}-noise", training=NOISE, attacker=attacker),
    ]


ALEXNET = family(
    "alexnet",
    "alexnet",
    0.5,
    Recipe(12, step_size=0.05, weight_decay=5e-4, schedule="one-cycle", augment=True),
    Recipe(5, step_size=0.02, weight_decay=5e-4, schedule="one-cycle", augment=True),
    attacker=MAIN,
)
SET, SET_SEEDS = "wrn-10-1-set", (2001, 2002, 2004)  # each set has its own start, batches and attacks
SETS = [
    family(
        f"{SET}-{number}",
        "wrn-10-1",
        1.0,
        Recipe(4, step_size=0.2, weight_decay=1e-4, schedule="one-cycle", augment=True, bfloat16=True),
        Recipe(1, step_size=0.1, weight_decay=1e-4, schedule="one-cycle", augment=True, bfloat16=True),
        attacker=THREE_STEPS,
        seed=seed,
    )
    for number, seed in enumerate(SET_SEEDS, 1)
]
FIRST_CYCLE = [  # one recipe, with the labels of two groups of classes and with all ten
    Member(
        name=f"resnet-10-{word}-labels",
        network="resnet-10",
        factor=0.375,
        training=CLEAN,
        recipe=Recipe(14, step_size=0.1, schedule="one-cycle", augment=True, bfloat16=True),
        labels=labels,
    )
    for word, labels in (("two", 2), ("ten", 10))
]
LABELLED = [  # and a second, lower cycle of step sizes
    replace(
        member,
        name=f"{member.name}-longer",
        training=MORE_CLEAN,
        recipe=replace(member.recipe, epochs=6, step_size=0.05),
        parent=member.name,
    )
    for member in FIRST_CYCLE
]
MEMBERS: Mapping[str, Member] = {
    member.name: member for member in (*ALEXNET, *chain(*SETS), *FIRST_CYCLE, *LABELLED)
}


def stems(stem: str) -> tuple[str, ...]:
    """The families of this name: each of the independent sets, or the one."""
    return tuple(f"{SET}-{number}" for number, _ in enumerate(SET_SEEDS, 1)) if stem == SET else (stem,)


def member_of(stem: str, training: str, seed: int) -> Member:
    """The network after a training, of the set that a seed measures."""
    families = stems(stem)
    return MEMBERS[f"{families[seed % len(families)]}-{training}"]
