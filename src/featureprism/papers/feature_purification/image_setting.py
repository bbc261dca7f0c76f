"""What the image experiments share: pictures, the four attackers, and networks that are trained once and kept."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from featureprism.data.images import ImageSet, draw_images, load_images
from featureprism.lab.context import Context
from featureprism.lab.images import picture
from featureprism.lab.rows import Row, Rows, Values, number
from featureprism.networks.deep import image_network
from featureprism.probes.image_attacks import (
    ImageAttack,
    decided,
    label_loss,
    margin_loss,
    noise_adversary,
    perturb,
    pgd_adversary,
    survivors,
    vanishing_share,
    wilson,
)
from featureprism.probes.images import principal_directions
from featureprism.seeds import generator_for
from featureprism.training.images import Recipe, checkpoint_for, train_images
from featureprism.zoo import Member, load
from featureprism.zoo.files import family_mark, is_cifar
from featureprism.zoo.members import SET, member_of
from featureprism.zoo.training import fresh

ATTACKERS: Mapping[str, ImageAttack] = {  # Section 8; steps and noisy copies of each in training
    "l-infinity 4/255": ImageAttack(inf, 4 / 255, steps=7),
    "l-infinity 8/255": ImageAttack(inf, 8 / 255, steps=7),
    "l2 (0.5, 0.12)": ImageAttack(2, 0.5, steps=4, noise=0.12, samples=2),
    "l2 (1, 0.25)": ImageAttack(2, 1.0, steps=4, noise=0.25, samples=2),
}
UNSMOOTHED: Mapping[str, ImageAttack] = {  # what the zoo is attacked by: it was trained without the noise
    "l2 0.5": ImageAttack(2, 0.5, steps=4),
    "l2 1": ImageAttack(2, 1.0, steps=4),
}
KNOWN = {**ATTACKERS, **UNSMOOTHED}
MAIN = "l2 (1, 0.25)"  # the attacker that the paper mostly speaks of
CLEAN, RANDOM, FROM_CLEAN = "clean", "adversarial", "adversarial from clean"
CONTROL = "more clean epochs"  # as many as adversarial training from clean weights has
NOISE = "noise only"  # the same again, with noise of the size of the perturbations
CONTROLS = (CONTROL, NOISE)
FOUR = (CLEAN, *CONTROLS, FROM_CLEAN)
SHIPPED = {CLEAN: "clean", CONTROL: "more-clean", NOISE: "noise", FROM_CLEAN: "adversarial-l2-1"}
SAMPLED = 2000  # images whose principal components are compared with
SETS_ABOUT = (
    "Quick, on CIFAR-10: three independently trained sets of WRN-10-1 (78 thousand weights; 'featureprism zoo' says how they were"
    " trained: against ℓ2 perturbations of radius 1 by three steps of PGD, without smoothing noise). Each seed measures its own set."
)
SHIPPED_ABOUT = (
    "Quick, on CIFAR-10: AlexNets of the zoo from one start, trained against ℓ2 perturbations of radius 1 without smoothing noise. The"
    " seeds draw test images and attacks, the weights are the same: the item shows numbers and makes no claim."
)
ALEXNETS, RESNETS = family_mark("alexnet", SHIPPED.values()), family_mark(SET, SHIPPED.values())


@dataclass(frozen=True, kw_only=True)
class ImageSetting:
    """Images, a network and its training, at the quick scale unless said otherwise. Step size and weight decay: Section 8.

    `zoo` names a family of shipped networks and its weights: on CIFAR-10 they are measured, and nothing is trained.
    """

    zoo: str = ""
    data: str = "cifar10"
    network: str = "resnet-10"
    factor: float = 0.125
    train_images: int = 6_000
    batch_size: int = 128
    step_size: float = 0.1
    weight_decay: float = 1e-4
    augment: bool = False
    epochs: int = 10
    adversarial_epochs: int = 8
    finetune_epochs: int = 3
    warm_up: int = 1
    train_steps: int = 2
    train_samples: int = 1
    test_images: int = 200
    test_steps: int = 20
    restarts: int = 1
    milestones: tuple[int, ...] = ()

    @property
    def clean_recipe(self) -> Recipe:
        """Clean training."""
        return self._recipe(self.epochs, 0)

    @property
    def adversarial_recipe(self) -> Recipe:
        """Adversarial training from random weights."""
        return self._recipe(self.adversarial_epochs, self.warm_up)

    @property
    def finetune_recipe(self) -> Recipe:
        """Training that goes on from clean weights."""
        return self._recipe(self.finetune_epochs, self.warm_up)

    def _recipe(self, epochs: int, warm_up: int) -> Recipe:
        """SGD as in Section 8: a tenth at the milestones, cosine steps where there are none."""
        return Recipe(
            epochs,
            batch_size=self.batch_size,
            step_size=self.step_size,
            weight_decay=self.weight_decay,
            augment=self.augment,
            schedule="step" if self.milestones else "cosine",
            milestones=self.milestones,
            warm_up=min(warm_up, epochs - 1),
        )

    def training_attack(self, attacker: str = MAIN) -> ImageAttack:
        """An attacker with at most the steps and copies that the setting can pay for in training."""
        attack = KNOWN[attacker]
        steps = min(attack.steps, self.train_steps)
        return replace(attack, steps=steps, samples=min(attack.samples, self.train_samples))


STANDARD: Row = {
    "network": "wrn-16-1",
    "factor": 1.0,
    "train_images": 50_000,
    "augment": True,
    "epochs": 8,
    "adversarial_epochs": 4,
    "finetune_epochs": 2,
    "test_images": 500,
    "test_steps": 40,
}
PAPER: Row = STANDARD | {
    "network": "wrn-34-4",  # 31 convolutions
    "milestones": (81, 122),  # of the code behind the paper (footnote 13)
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
ALEXNET_QUICK: Row = {
    "zoo": ALEXNETS,
    "factor": 0.5,
    "step_size": 0.05,
    "train_images": 10_000,
    "finetune_epochs": 6,
}
SIZES: Mapping[str, Row] = {"quick": {"zoo": RESNETS}, "standard": STANDARD, "paper": PAPER}
S = TypeVar("S", bound=ImageSetting)


def scales(kind: type[S], **changes: Row) -> dict[str, list[S]]:
    """One setting for each scale; `every` changes all, `quick`, `standard` and `paper` one."""
    every = changes.get("every", {})
    return {name: [kind(**(size | every | changes.get(name, {})))] for name, size in SIZES.items()}


def images_of(s: ImageSetting, seed: int, context: Context) -> ImageSet:
    """A seed's draw of training and test images."""
    return draw_images(load_images(s.data, context.data), s.train_images, s.test_images, seed=seed)


def shipped(s: ImageSetting, data: ImageSet, training: str, seed: int) -> Member | None:
    """The member of the zoo that this network is, if the images are CIFAR-10; where there are several sets, of the seed's own."""
    if not s.zoo or not is_cifar(data) or training not in SHIPPED:
        return None
    return member_of(s.zoo.split()[0], SHIPPED[training], seed)


def start(s: ImageSetting, data: ImageSet, seed: int) -> nn.Module:
    """The network before training."""
    if member := shipped(s, data, CLEAN, seed):
        return fresh(member).eval()
    channels, height, width = data.x_train.shape[1:]
    return image_network(
        s.network,
        (channels, height, width),
        int(data.y_train.max()) + 1,
        factor=s.factor,
        generator=generator_for("start", seed),
    )


def train_kept(
    net: nn.Module,
    s: ImageSetting,
    data: ImageSet,
    recipes: tuple[Recipe, ...],
    seed: int,
    context: Context,
    known_by: Row,
    **how: Any,
) -> nn.Module:
    """Train by the last of the recipes, and keep the network under its shape, its images and every training it went through."""
    checkpoint = checkpoint_for(
        context.networks,
        network=s.network,
        factor=s.factor,
        train_images=s.train_images,
        zoo=s.zoo,  # where the weights it began with may come from
        recipes=[asdict(recipe) for recipe in recipes],
        source=data.source,
        seed=seed,
        **known_by,
    )
    return train_images(
        net,
        data.x_train,
        data.y_train,
        recipes[-1],
        seed=seed,
        checkpoint=checkpoint,
        device=context.device,
        progress=context.progress,
        announce=context.announce,
        **how,
    )


def trained(
    s: ImageSetting, data: ImageSet, seed: int, training: str, context: Context, attacker: str = MAIN
) -> nn.Module:
    """The network after clean training, after adversarial training from random or from clean weights, or after a control."""
    if member := shipped(s, data, training, seed):
        context.progress(1.0)
        return load(member.name).to(context.device)
    attack = None if training in (CLEAN, CONTROL) else s.training_attack(attacker)
    if training in (FROM_CLEAN, *CONTROLS):
        net = trained(s, data, seed, CLEAN, context.within(0, 0.4))
        context, recipes = context.within(0.4, 1), (s.clean_recipe, s.finetune_recipe)
    else:
        net = start(s, data, seed)
        recipes = (s.clean_recipe if training == CLEAN else s.adversarial_recipe,)
    known_by = {"training": training, "attack": None if attack is None else asdict(attack)}
    adversary = None if attack is None else (noise_adversary if training == NOISE else pgd_adversary)(attack)
    return train_kept(net, s, data, recipes, seed, context, known_by, adversary=adversary)


def four(s: ImageSetting, data: ImageSet, seed: int, context: Context) -> dict[str, nn.Module]:
    """The clean network and, from its weights, both controls and the one that was trained adversarially."""
    names = {CLEAN: CLEAN, CONTROL: CONTROL, NOISE: NOISE, RANDOM: FROM_CLEAN}
    return {
        name: trained(s, data, seed, training, context.within(index / 4, (index + 1) / 4))
        for index, (name, training) in enumerate(names.items())
    }


def accuracies(net: nn.Module, s: ImageSetting, data: ImageSet, attacker: str, seed: int) -> Row:
    """Clean and robust accuracy on test images, with 95 % intervals; PGD with the setting's steps and restarts.

    Robust against ℓ2(ε, σ): right under PGD of radius ε without noise, and at x + δ + n with δ from SmoothAdv-PGD and a new draw of
    the noise n ~ N(0, σ²). `plain` and `noisy` are the shares for each of the two alone. Every attack climbs the cross-entropy and,
    once more, the margin; `zero_gradients` is the share of images where the cross-entropy has no gradient to climb.
    """
    net.eval()
    full = replace(KNOWN[attacker], steps=s.test_steps, restarts=s.restarts)
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
    row: Row = {name: float(held.double().mean()) for name, held in kept.items()}
    row["zero_gradients"] = vanishing_share(net, x, y)
    for name, held in (("clean", clean), ("robust", robust)):
        low, high = wilson(int(held.sum()), len(held))
        row |= {name: float(held.double().mean()), f"{name}_low": low, f"{name}_high": high}
    return row


def perturbations(net: nn.Module, s: ImageSetting, x: Tensor, y: Tensor, seed: int) -> Tensor:
    """ℓ2 perturbations of the main attacker's radius, by PGD without noise."""
    attack = ImageAttack(2, ATTACKERS[MAIN].eps, steps=s.test_steps)
    generator = generator_for("perturbations", seed)
    batches = zip(x.split(100), y.split(100), strict=True)
    return torch.cat([perturb(net, *batch, attack, generator=generator) for batch in batches])


def components(data: ImageSet) -> Tensor:
    """The first tenth of the principal components of a few thousand training images, as columns."""
    return principal_directions(data.x_train[:SAMPLED].flatten(1), share=0.1)


def natural_gain(kind: str, robust: str) -> Callable[[Rows], Values]:
    """The value of a claim: the robust network's share of energy in the components, minus the largest of clean and controls."""

    def difference(own: Rows) -> float:
        shares = {row["network"]: number(row["share"]) for row in own.of(kind)}
        return shares[robust] - max(shares[name] for name in (CLEAN, *CONTROLS))

    return lambda rows: rows.per_seed(difference)


def pictures(network: str, images: Tensor) -> list[Row]:
    """A row for each picture of a network."""
    return [
        {"kind": "picture", "network": network, "index": i, **picture(image)}
        for i, image in enumerate(images)
    ]
