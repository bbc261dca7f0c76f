"""What Figure 3 on MNIST and on CIFAR-10 shares: networks with two labels and with ten, and where their decisions break."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, nan
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism._progress import Progress, part
from featureprism.data.images import ImageSet, draw_images, load_images
from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks.deep import image_network
from featureprism.papers.feature_averaging.embedded import GROUPS, TEN, TWO, short_source, source_of
from featureprism.probes.image_attacks import ImageAttack, decided, group_loss, label_loss, wilson
from featureprism.probes.image_radii import BATCH, broken_at, half_radius, robust_curve
from featureprism.seeds import generator_for
from featureprism.training.images import Recipe, checkpoint_for, train_images
from featureprism.zoo import load
from featureprism.zoo.files import family_mark, is_cifar

RESAMPLES = 2000  # of the test images, for the interval of a gain
ACCURATE = 0.9  # below this accuracy of the two-class decision a network is not trained to its end
SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
STEM, MEMBER = "resnet-10", {TWO: "two-labels-longer", TEN: "ten-labels-longer"}  # of the zoo
SHIPPED = family_mark(STEM, tuple(MEMBER.values()))
MERGED, LABELS, BOTH = "merged decision", "ten-class cross-entropy", "both"


@dataclass(frozen=True, kw_only=True)
class ImageTraining:
    """A network and its training, the same with two labels and with ten, and the PGD attack on a rising grid of radii.

    SGD, batches of 128, momentum 0.9, weight decay 5e-4, no augmentation. Section 6.2. `zoo` names two shipped networks and their
    weights: on CIFAR-10 they are measured, and nothing is trained.
    """

    zoo: str = ""
    data: str
    network: str = "resnet-18"
    factor: float = 1.0
    train_images: int = 60_000
    epochs: int
    step_size: float
    schedule: str
    test_images: int = 1000
    radii: tuple[float, ...]
    steps: int = 40
    restarts: int = 1

    @property
    def recipe(self) -> Recipe:
        """How both networks are trained."""
        return Recipe(self.epochs, step_size=self.step_size, schedule=self.schedule)


def trained(labels: str, sample: ImageSet, s: ImageTraining, seed: int, context: Context) -> nn.Module:
    """The network with two outputs or ten, from the same recipe: of the zoo, or kept under everything its weights depend on."""
    if s.zoo and is_cifar(sample):
        context.progress(1.0)
        return load(f"{STEM}-{MEMBER[labels]}").to(context.device)
    targets, num = (GROUPS[sample.y_train], 2) if labels == TWO else (sample.y_train, 10)
    shape = sample.x_train.shape[1], sample.x_train.shape[2], sample.x_train.shape[3]
    start = generator_for(f"image network, {labels}", seed)
    checkpoint = checkpoint_for(
        context.networks,
        item="feature-averaging figure 3",
        network=s.network,
        factor=s.factor,
        recipe=asdict(s.recipe),
        source=sample.source,
        num_images=len(sample.y_train),
        labels=labels,
        seed=seed,
    )
    return train_images(
        image_network(s.network, shape, num, factor=s.factor, generator=start),
        sample.x_train,
        targets,
        s.recipe,
        seed=seed,
        checkpoint=checkpoint,
        device=context.device,
        progress=context.progress,
        announce=context.announce,
    )


def gain_interval(
    ten: Float[Tensor, " n"], two: Float[Tensor, " n"], radii: Sequence[float], *, generator: torch.Generator
) -> tuple[float, float]:
    """95 % percentile interval of the ratio of 50 % radii when the test images are drawn again, the same for both networks."""
    pick = torch.randint(len(ten), (RESAMPLES, len(ten)), generator=generator)
    grid = torch.tensor([0.0, *radii], dtype=ten.dtype)
    halves = []
    for broken in (ten, two):
        stands = (broken.unsqueeze(0) > grid.unsqueeze(1)).double()  # (radii, n)
        curves = torch.stack([row[pick].mean(dim=1) for row in stands], dim=1)
        drawn = [half_radius(radii, curve) for curve in curves.tolist()]
        halves.append([inf if half != half else half for half in drawn])  # beyond the grid
    ratios = [own / other if other > 0 else nan for own, other in zip(*halves, strict=True)]
    table = torch.tensor(ratios, dtype=torch.float64)
    low, high = table.nanquantile(torch.tensor([0.025, 0.975]).double()).tolist()
    return low, high


def _broken(
    nets: dict[str, nn.Module], sample: ImageSet, s: ImageTraining, seed: int, progress: Progress
) -> dict[tuple[str, str], Tensor]:
    """Per network and attack the radius at which each image breaks."""
    merged = GROUPS[sample.y_test]
    plans = {
        (TWO, MERGED): (torch.arange(2), merged, label_loss),
        (TEN, MERGED): (GROUPS, merged, group_loss(GROUPS)),
        (TEN, LABELS): (GROUPS, sample.y_test, label_loss),
    }
    attack = ImageAttack(2, s.radii[-1], s.steps, restarts=s.restarts)
    broken = {}
    for index, ((name, what), (groups, aim, loss)) in enumerate(plans.items()):
        broken[name, what] = broken_at(
            nets[name],
            sample.x_test,
            merged,
            s.radii,
            attack,
            groups=groups,
            aim=aim,
            loss=loss,
            generator=generator_for(f"attack, {name}, {what}", seed),
            progress=part(progress, index / len(plans), (index + 1) / len(plans)),
        )
    broken[TEN, BOTH] = torch.minimum(broken[TEN, MERGED], broken[TEN, LABELS])
    return broken


def measure(s: ImageTraining, seed: int, context: Context) -> list[Row]:
    """Train both networks, attack both read-outs, and compare the radii at which half of the test images are lost."""
    images = load_images(s.data, context.data)
    if set(images.y_train.tolist()) != set(range(len(GROUPS))):
        raise ValueError(f"{images.source}: this item needs the labels 0 to 9.")
    sample = draw_images(images, s.train_images, s.test_images, seed=seed)
    nets = {
        name: trained(name, sample, s, seed, context.within(begin, begin + 0.35))
        for name, begin in ((TWO, 0.0), (TEN, 0.35))
    }
    broken = _broken(nets, sample, s, seed, part(context.progress, 0.7, 0.98))
    rows, half, num = [], {}, len(sample.y_test)
    for (name, what), radius_of in broken.items():
        about = {"labels": name, "attack": what}
        curve = robust_curve(radius_of, s.radii)
        for radius, accuracy in zip((0.0, *s.radii), curve, strict=True):
            low, high = wilson(round(accuracy * num), num)
            point = {"radius": radius, "accuracy": accuracy, "low": low, "high": high}
            rows.append({"kind": "curve", **about, **point})
        half[name, what] = half_radius(s.radii, curve)
        rows.append({"kind": "half", **about, "half_radius": half[name, what]})
    for name, net in nets.items():
        rows.append({"kind": "clean", "labels": name, **_clean(net, images, name)})
    for what in (BOTH, MERGED, LABELS):
        random = generator_for(f"bootstrap, {what}", seed)
        low, high = gain_interval(broken[TEN, what], broken[TWO, MERGED], s.radii, generator=random)
        ratio = half[TEN, what] / half[TWO, MERGED] if half[TWO, MERGED] > 0 else nan
        rows.append({"kind": "gain", "attack": what, "gain": ratio, "low": low, "high": high})
    return rows


def _clean(net: nn.Module, images: ImageSet, labels: str) -> Row:
    """Accuracy of the merged decision, and of the ten labels where the network knows them, on at most 2000 test images."""
    x, y = images.x_test[:2000], images.y_test[:2000]
    groups = torch.arange(2) if labels == TWO else GROUPS
    merged = torch.cat([decided(net, few, groups) for few in x.split(BATCH)])
    fine = torch.cat([decided(net, few) for few in x.split(BATCH)])
    accuracy = float((merged == GROUPS[y]).double().mean())
    return {
        "accuracy": accuracy,
        "ten_accuracy": nan if labels == TWO else float((fine == y).double().mean()),
    }


def half(rows: Rows, labels: str, attack: str) -> Values:
    """The 50 % radius of a network under an attack, seed by seed."""
    return rows.of("half", labels=labels, attack=attack).per_seed("half_radius")


def lead_half_way(rows: Rows) -> Values:
    """Robust accuracy of ten labels (both attacks) minus that of two, at half the 50 % radius of two.

    On the grid: at its radius next to that one. NaN where the 50 % radius lies beyond the grid.
    """

    def lead(own: Rows) -> float:
        radius = float(half(own, TWO, MERGED)[0])
        two, ten = own.of("curve", labels=TWO), own.of("curve", labels=TEN, attack=BOTH)
        at = int(np.abs(two.column("radius") - radius / 2).argmin())
        return nan if radius != radius else ten.column("accuracy")[at] - two.column("accuracy")[at]

    return rows.per_seed(lead)


def overstated(rows: Rows) -> Values:
    """50 % radius of the ten-label network as an attack on its labels shows it ÷ as one on the decision does."""
    decision = half(rows, TEN, MERGED)
    return half(rows, TEN, LABELS) / np.where(decision > 0, decision, nan)


def gain(rows: Rows) -> Values:
    """50 % radius with ten labels ÷ with two, each image under the stronger of both attacks."""
    return rows.of("gain", attack=BOTH).per_seed("gain")


def gain_note(rows: Rows) -> str:
    """Radii and accuracies behind a gain."""
    accuracy = [rows.of("clean", labels=labels).column("accuracy").mean() for labels in (TWO, TEN)]
    numbers = (
        f"50 % radii {half(rows, TWO, MERGED).mean():.3f} (two labels) and {half(rows, TEN, BOTH).mean():.3f} (ten labels, both"
        f" attacks); clean accuracy {accuracy[0]:.3f} and {accuracy[1]:.3f}; images: {source_of(rows)}"
    )
    untrained = f"; below {ACCURATE:.0%} of right decisions a network is not trained to its end, and its 50 % radius says little"
    return numbers + (untrained if min(accuracy) < ACCURATE else "")


def radius_grid(step: float, last: float) -> tuple[float, ...]:
    """Radii from one step to the last."""
    return tuple(round(step * i, 6) for i in range(1, round(last / step) + 1))


def scaled_down(published: ImageTraining, quick: Row) -> dict[str, list[ImageTraining]]:
    """The published training, and a small one with further changes."""
    small = {"network": "resnet-10", "factor": 0.125, "steps": 20, "epochs": 20, "test_images": 200}
    return {"quick": [replace(published, restarts=1, **(small | quick))], "paper": [published]}


ABOUT = (
    "A ResNet-18 (quick: a ResNet-10 an eighth as wide) trained from scratch twice with the same recipe: with the two merged labels"
    " (classes 0-4 against 5-9), and with all ten. The ten probabilities are then added up within each group, and the decision between"
    " the groups is attacked by PGD: once by climbing its own loss, once by climbing the ten-class cross-entropy. An image counts as"
    " robust only if it withstands both. The published recipe (SGD, batches of 128, momentum 0.9, weight decay 5e-4) names no"
    " augmentation and none is used. There is no standard scale: a ResNet-18 a quarter as wide on 10 000 images already takes"
    " about an hour of one core for each seed, and the paper's size a day or more; use --set for sizes between."
)


def draw(rows: Rows) -> Any:
    """Robust accuracy against the radius, bands over seeds or, for one seed, of the test images (95 %)."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels

    figure, (axes,) = panels(1, width=5.8, height=3.5)
    styles = (
        (TWO, MERGED, COLOURS[0], "two labels"),
        (TEN, BOTH, COLOURS[1], "ten labels, the stronger of both attacks"),
        (TEN, MERGED, COLOURS[2], "ten labels, attacked at the decision"),
        (TEN, LABELS, COLOURS[4], "ten labels, attacked at the ten labels"),
    )
    for labels, attack, colour, text in styles:
        own = rows.of("curve", labels=labels, attack=attack)
        x, low, mean, high = over_seeds(own, "radius", "accuracy")
        if len(rows.seeds) == 1:
            low, high = (over_seeds(own, "radius", side)[2] for side in ("low", "high"))
        if attack == MERGED and labels == TEN:
            axes.plot(x, mean, ":", color=colour, label=text)
        else:
            band(axes, x, low, mean, high, colour, text, dashed=attack == LABELS)
    guide(axes, 0.5, "50 %", along="y")
    mean_gain = rows.of("gain", attack=BOTH).column("gain").mean()
    radius, accuracy = rows.of("curve").column("radius"), rows.of("curve").column("accuracy")
    last = radius[accuracy > 0.02].max(initial=0) or radius.max()
    axes.set(
        xlabel="ℓ2 radius",
        ylabel="robust accuracy (attacked)",
        title=f"{short_source(rows)}: 50 % radius, ten labels ÷ two labels = {mean_gain:.2f}",
        xlim=(0, last),
        ylim=(0, 1.03),
    )
    axes.legend(loc="upper right", fontsize=7)
    return figure
