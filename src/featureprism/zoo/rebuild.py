"""Train a member again and write it down, with its card."""

import time
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import torch

from featureprism._files import prepare_folder
from featureprism.data.images import ImageSet, load_images
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.training.images import train_images
from featureprism.zoo.evaluation import judged
from featureprism.zoo.files import KEPT, load, read_card, save
from featureprism.zoo.members import ATTACKS, MEMBERS, SHAPE, Member
from featureprism.zoo.training import Start, adversary_of, data_hash, fresh, grow

TRAINED_SHARE = 0.9  # of the progress; the rest is evaluation
STEPS = 4  # that are timed
EVALUATED = 300  # test images under attack


def cifar(context: Context) -> ImageSet:
    """The images; what is not CIFAR-10 is refused."""
    data = load_images("cifar10", context.data)
    if tuple(data.x_train.shape[1:]) != SHAPE:
        raise ValueError(
            "CIFAR-10 is not at hand: 'featureprism fetch cifar10', or name its folder with --data."
        )
    return data


def seconds_of(member: Member, data: ImageSet, folder: Path, device: str = "cpu") -> float:
    """How long the training will take here, with a parent that is not kept, from a few steps that are timed now (the second time)."""
    alone = member.parent is None or kept_parent(member, folder) is not None
    before = 0.0 if alone else seconds_of(MEMBERS[member.parent or ""], data, folder, device)
    size = member.recipe.batch_size
    x, y = data.x_train[: size * STEPS], member.labelled(data.y_train[: size * STEPS])
    taken = []
    for _ in range(2):
        began = time.perf_counter()
        train_images(
            fresh(member),
            x,
            y,
            replace(member.recipe, epochs=1),
            seed=0,
            adversary=adversary_of(member),
            device=device,
        )
        taken.append(time.perf_counter() - began)
    return before + min(taken) * len(data.x_train) / len(x) * member.recipe.epochs


def kept_parent(member: Member, folder: Path) -> Start | None:
    """The parent as it is kept, in `folder` or in the package: whoever has the file starts from the same weights."""
    if member.parent is None:
        return None
    for place in (folder, KEPT):
        if (card := read_card(member.parent, place)) is not None:
            return Start(load(member.parent, place), card["sha256"])
    return None


def rebuild(member: Member, folder: Path, context: Context, data: ImageSet) -> Path:
    """Train (or go on, from the checkpoints in `context.networks`), evaluate at half precision, write weights and card."""
    prepare_folder(folder)
    curve: list[Row] = []
    hashed = data_hash(data)
    start = kept_parent(member, folder)
    net = grow(member, data, context.within(0, TRAINED_SHARE), start=start, curve=curve, hashed=hashed)
    net = net.cpu().half().float()  # as it will be read
    card: Row = {
        "network": member.network,
        "factor": member.factor,
        "parameters": sum(p.numel() for p in net.parameters()),
        "labels": member.labels,
        "training": member.training,
        "attack": None if member.attacker is None else asdict(ATTACKS[member.attacker]),
        "parent": member.parent,
        "start": None if start is None else start.mark,  # the sum of the parent's file
        "recipe": asdict(member.recipe),
        "seed": member.seed,
        "data": {"name": "cifar10", "sha256": hashed, "images": len(data.x_train)},
        "curve": curve,
        "versions": {"featureprism": version("featureprism"), "torch": torch.__version__},
    }
    found = judged(
        member, net, data, num_images=EVALUATED, progress=context.within(TRAINED_SHARE, 1).progress
    )
    return save(member, net, card | {"accuracies": found}, folder)
