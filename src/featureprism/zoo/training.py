"""Training a member of the zoo, on all of CIFAR-10, resumed where a killed training stopped."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from featureprism.data.images import ImageSet
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks.deep import image_network
from featureprism.probes.image_attacks import decided, noise_adversary, pgd_adversary
from featureprism.seeds import generator_for
from featureprism.training.images import Adversary, checkpoint_for, train_images
from featureprism.zoo.members import ATTACKS, MEMBERS, NOISE, SHAPE, Member

WATCHED = 1000  # test images whose accuracy the curve tells, after each epoch


def data_hash(data: ImageSet) -> str:
    """SHA-256 (16 digits) of the training images as bytes, and of their labels: the same for every file that holds them."""
    pixels = (data.x_train * 255).round().to(torch.uint8)
    digest = hashlib.sha256(pixels.numpy().tobytes())
    digest.update(data.y_train.numpy().tobytes())
    return digest.hexdigest()[:16]


def fresh(member: Member) -> nn.Module:
    """The network before any training: the same for the whole family."""
    generator = generator_for("start", member.seed)
    return image_network(member.network, SHAPE, member.labels, factor=member.factor, generator=generator)


@dataclass(frozen=True)
class Start:
    """The weights that a training begins with, and a word for them in the names of its checkpoints."""

    net: nn.Module
    mark: str


def grow(
    member: Member,
    data: ImageSet,
    context: Context,
    *,
    start: Start | None = None,
    curve: list[Row] | None = None,
    hashed: str | None = None,
) -> nn.Module:
    """The trained network, from `start` where it is given; else its parent is trained first, unless `context.networks` holds it."""
    hashed = data_hash(data) if hashed is None else hashed
    net = fresh(member) if start is None else start.net
    if start is None and member.parent is not None:
        net = grow(MEMBERS[member.parent], data, context.within(0, 0.5), hashed=hashed)
        context = context.within(0.5, 1)
    watched = data.x_test[:WATCHED], member.labelled(data.y_test[:WATCHED])
    return train_images(
        net,
        data.x_train,
        member.labelled(data.y_train),
        member.recipe,
        seed=member.seed,
        adversary=adversary_of(member),
        checkpoint=_checkpoint(member, hashed, context.networks, "" if start is None else start.mark),
        device=context.device,
        watch=lambda net: {"accuracy": accuracy(net, *watched)},
        history=curve,
        progress=context.progress,
        announce=context.log,
    )


def accuracy(net: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of images that are right."""
    return float((decided(net, x) == y).double().mean())


def adversary_of(member: Member) -> Adversary | None:
    """What moves the images of a training, if anything does."""
    if member.attacker is None:
        return None
    attack = ATTACKS[member.attacker]
    return noise_adversary(attack) if member.training == NOISE else pgd_adversary(attack)


def _checkpoint(member: Member, hashed: str, folder: Path | None, start: str) -> Path | None:
    """Known by the recipes of the member and of all its forebears, or by the weights it began with."""
    line, now = [], member
    while True:
        line.append(
            {**asdict(now), "attack": None if now.attacker is None else asdict(ATTACKS[now.attacker])}
        )
        if start or now.parent is None:
            return checkpoint_for(folder, zoo=line, data=hashed, start=start)
        now = MEMBERS[now.parent]
