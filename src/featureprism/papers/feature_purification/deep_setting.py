"""What the image experiments share: pictures, the four attackers, and networks that are trained once and kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import inf

import torch
from torch import Tensor, nn

from featureprism.attacks.images import (
    ImageAttack,
    decided,
    label_loss,
    margin_loss,
    perturb,
    pgd_adversary,
    survivors,
    vanishing_share,
    wilson,
)
from featureprism.data.images import ImageSet, draw_images, load_images
from featureprism.networks.deep import image_network
from featureprism.records import Progress, Row, silent
from featureprism.seeds import generator_for
from featureprism.training.images import Recipe, checkpoint_for, train_images

ATTACKERS: Mapping[str, ImageAttack] = {  # Section 8; steps and noisy copies of each in training
    "l-infinity 4/255": ImageAttack(inf, 4 / 255, steps=7),
    "l-infinity 8/255": ImageAttack(inf, 8 / 255, steps=7),
    "l2 (0.5, 0.12)": ImageAttack(2, 0.5, steps=4, noise=0.12, samples=2),
    "l2 (1, 0.25)": ImageAttack(2, 1.0, steps=4, noise=0.25, samples=2),
}
MAIN = "l2 (1, 0.25)"  # the attacker that the paper mostly speaks of
CLEAN, RANDOM, FROM_CLEAN = "clean", "adversarial", "adversarial from clean"
CONTROL = "more clean epochs"  # as many as adversarial training from clean weights has
QUICK: Row = {
    "data": "cifar10",
    "network": "resnet-10",
    "factor": 0.125,
    "train_images": 6_000,
    "batch_size": 128,
    "step_size": 0.1,
    "weight_decay": 1e-4,
    "augment": False,
    "epochs": 10,
    "adversarial_epochs": 8,
    "finetune_epochs": 3,
    "warm_up": 1,
    "train_steps": 2,
    "train_samples": 1,
    "test_images": 200,
    "test_steps": 20,
    "restarts": 1,
}
STANDARD: Row = QUICK | {
    "network": "resnet-18",
    "factor": 0.25,
    "train_images": 50_000,
    "batch_size": 128,
    "augment": True,
    "epochs": 8,
    "adversarial_epochs": 4,
    "finetune_epochs": 2,
    "test_images": 500,
    "test_steps": 40,
}
PAPER: Row = STANDARD | {
    "network": "resnet-34",
    "factor": 1.0,
    "epochs": 164,
    "adversarial_epochs": 164,
    "finetune_epochs": 164,
    "warm_up": 10,
    "train_steps": 7,
    "train_samples": 2,
    "test_images": 10_000,
    "restarts": 5,
}
ALEXNET: Row = {"network": "alexnet", "step_size": 0.02, "weight_decay": 5e-4}  # Section 8
ALEXNET_QUICK: Row = ALEXNET | {
    "factor": 0.5,
    "step_size": 0.05,
    "train_images": 10_000,
    "finetune_epochs": 6,
}


def scales(**changes: Row) -> dict[str, list[Row]]:
    """The three scales; `every` changes all, `quick`, `standard` and `paper` one."""
    every = changes.get("every", {})
    base = {"quick": QUICK, "standard": STANDARD, "paper": PAPER}
    return {name: [{**row, **every, **changes.get(name, {})}] for name, row in base.items()}


def between(progress: Progress, begin: float, end: float) -> Progress:
    """The part of a whole that a step of it reports to."""
    return lambda done: progress(begin + (end - begin) * done)


def images_of(setting: Row, seed: int) -> ImageSet:
    """A seed's draw of training and test images."""
    whole = load_images(setting["data"])
    if setting.get("source", whole.source) != whole.source:
        raise ValueError(
            f"The setting speaks of {setting['source']}, but {whole.source} is what is found here."
        )
    return draw_images(whole, setting["train_images"], setting["test_images"], seed=seed)


def start(setting: Row, data: ImageSet, seed: int) -> nn.Module:
    """The network before training."""
    channels, height, width = data.x_train.shape[1:]
    num_classes = int(data.y_train.max()) + 1
    return image_network(
        setting["network"],
        (channels, height, width),
        num_classes,
        factor=setting["factor"],
        generator=generator_for("start", seed),
    )


def recipe_of(setting: Row, epochs: str) -> Recipe:
    """SGD as in Section 8, for `setting[epochs]` epochs: cosine steps, for the paper says nothing of their decay."""
    return Recipe(
        setting[epochs],
        batch_size=setting["batch_size"],
        step_size=setting["step_size"],
        weight_decay=setting["weight_decay"],
        augment=setting["augment"],
        warm_up=0 if epochs == "epochs" else min(setting["warm_up"], setting[epochs] - 1),
    )


def training_attack(setting: Row, attacker: str) -> ImageAttack:
    """An attacker with at most the steps and copies that the setting can pay for in training."""
    attack = ATTACKERS[attacker]
    steps = min(attack.steps, setting["train_steps"])
    return replace(attack, steps=steps, samples=min(attack.samples, setting["train_samples"]))


def weights_key(
    setting: Row, data: ImageSet, seed: int, *recipes: Recipe, **more: object
) -> dict[str, object]:
    """What a kept network is known by: its shape, its images, and every training it went through."""
    shape = {name: setting[name] for name in ("network", "factor", "train_images")}
    return {**shape, "recipes": [asdict(r) for r in recipes], "source": data.source, "seed": seed, **more}


def trained(
    setting: Row,
    data: ImageSet,
    seed: int,
    training: str,
    attacker: str = MAIN,
    progress: Progress = silent,
) -> nn.Module:
    """The network after clean training, after adversarial training from random or from clean weights, or after more clean epochs."""
    clean, random, later = (recipe_of(setting, f"{n}epochs") for n in ("", "adversarial_", "finetune_"))
    attack = None if training in (CLEAN, CONTROL) else training_attack(setting, attacker)
    if training in (FROM_CLEAN, CONTROL):
        net = trained(setting, data, seed, CLEAN, progress=between(progress, 0, 0.4))
        progress, recipes = between(progress, 0.4, 1), (clean, later)
    else:
        net, recipes = start(setting, data, seed), (clean if training == CLEAN else random,)
    key = weights_key(setting, data, seed, *recipes, attack=None if attack is None else asdict(attack))
    return train_images(
        net,
        data.x_train,
        data.y_train,
        recipes[-1],
        seed=seed,
        adversary=None if attack is None else pgd_adversary(attack),
        checkpoint=checkpoint_for(**key),
        progress=progress,
    )


def accuracies(net: nn.Module, setting: Row, data: ImageSet, attacker: str, seed: int) -> Row:
    """Clean and robust accuracy on test images, with 95 % intervals; PGD with the setting's steps and restarts.

    Robust against ℓ2(ε, σ): right under PGD of radius ε without noise, and at x + δ + n with δ from SmoothAdv-PGD and a new draw of
    the noise n ~ N(0, σ²). `plain` and `noisy` are the shares for each of the two alone. Every attack climbs the cross-entropy and,
    once more, the margin; `zero_gradients` is the share of images where the cross-entropy has no gradient to climb.
    """
    net.eval()
    full = replace(ATTACKERS[attacker], steps=setting["test_steps"], restarts=setting["restarts"])
    attacks = {"plain": replace(full, noise=0.0)}
    if full.noise:
        attacks["noisy"] = full
    x, y = data.x_test, data.y_test
    clean = decided(net, x) == y
    kept = {
        name: survivors(
            net,
            x,
            y,
            attack,
            losses=(label_loss, margin_loss),
            batch=100,
            generator=generator_for(name, seed),
        )
        for name, attack in attacks.items()
    }
    robust = torch.stack([clean, *kept.values()]).all(dim=0)
    told: Row = {name: float(held.double().mean()) for name, held in kept.items()}
    told["zero_gradients"] = vanishing_share(net, x, y)
    for name, held in (("clean", clean), ("robust", robust)):
        low, high = wilson(int(held.sum()), len(held))
        told |= {name: float(held.double().mean()), f"{name}_low": low, f"{name}_high": high}
    return told


def perturbations(net: nn.Module, setting: Row, x: Tensor, y: Tensor, seed: int) -> Tensor:
    """ℓ2 perturbations of the main attacker's radius, by PGD without noise."""
    attack = ImageAttack(2, ATTACKERS[MAIN].eps, steps=setting["test_steps"])
    generator = generator_for("perturbations", seed)
    parts = zip(x.split(100), y.split(100), strict=True)
    return torch.cat([perturb(net, *part, attack, generator=generator) for part in parts])


def means(rows: Sequence[Row], key: str, **fields: object) -> list[float]:
    """One value for each seed: the mean over the rows with these fields."""
    by_seed: dict[int, list[float]] = {}
    for row in rows:
        if all(row.get(name) == value for name, value in fields.items()):
            by_seed.setdefault(row["seed"], []).append(row[key])
    return [sum(values) / len(values) for _, values in sorted(by_seed.items())]


def differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """first - second, seed by seed."""
    return [a - b for a, b in zip(first, second, strict=True)]
