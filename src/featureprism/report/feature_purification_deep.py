"""The image figures of feature-purification, drawn from rows."""

from collections.abc import Callable, Iterable
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, guide, over_seeds, panels
from featureprism.records import Row, as_image

GAP = 1  # pixels between pictures
NAMES = {"adversarial": "adversarially trained", "clean": "cleanly trained", "start": "at the start"}


def mosaic(pictures: Iterable[Row], columns: int) -> np.ndarray:
    """Pictures side by side on white, `columns` in a row."""
    images = [as_image(row).numpy() for row in sorted(pictures, key=lambda row: row["index"])]
    height, width, channels = images[0].shape
    lines = -(-len(images) // columns)
    sheet = np.ones((lines * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels))
    for index, image in enumerate(images):
        top, left = (index // columns) * (height + GAP), (index % columns) * (width + GAP)
        sheet[top : top + height, left : left + width] = image
    return sheet


def gallery(rows: Rows, *, columns: int, facts: str = "", by: str = "") -> Figure:
    """One sheet of pictures for each network (first seed), with the mean share of energy of `facts` rows in its title.

    With `by` there is one line of sheets for each value of that setting.
    """
    pictures = rows.of("picture", seed=rows.seeds[0])
    lines = sorted(pictures.distinct(by)) if by else [None]
    names = sorted(pictures.distinct("network"), key=lambda name: name != "images")
    shown = max(len(own) for own in pictures.groups("network").values())
    tall = 2.5 * -(-shown // len(lines) // columns) / columns + 0.45  # inches of a sheet and its title
    figure, axes = plt.subplots(
        len(lines),
        len(names),
        figsize=(2.5 * len(names), tall * len(lines)),
        layout="constrained",
        squeeze=False,
    )
    for line, value in zip(axes, lines, strict=True):
        chosen = pictures.having(**{by: value}) if by else pictures
        for spot, name in zip(line, names, strict=True):
            sheet = mosaic(chosen.having(network=name), columns)
            spot.imshow(sheet if sheet.shape[2] == 3 else sheet[..., 0], cmap="gray", interpolation="nearest")
            spot.set_axis_off()
            title = f"{NAMES.get(name, name)}{f', {by} {value}' if by else ''}"
            told = rows.of(facts, network=name).column("share")
            if len(told) and not by:
                title += f"\n{told.mean():.0%} in the first components"
            spot.set_title(title, fontsize=8)
    return figure


def table_1(rows: Rows) -> Figure:
    """Robust accuracy (dots with 95 % intervals of one seed) and clean accuracy (small marks) for every attacker."""
    figure, (axes,) = panels(1, width=6.4, height=3.0)
    attackers = rows.of("accuracy").distinct("attacker")
    for index, (training, part) in enumerate(rows.of("accuracy").groups("training").items()):
        for spot, attacker in enumerate(attackers):
            own, x = part.having(attacker=attacker), spot + 0.15 * (index - 2)
            low, middle, high = (own.column(f"robust{side}").mean() for side in ("_low", "", "_high"))
            axes.errorbar(
                x,
                middle,
                [[max(0.0, middle - low)], [max(0.0, high - middle)]],
                fmt="o",
                color=COLOURS[index],
                label=NAMES.get(training, training) if spot == 0 else None,
                capsize=2,
            )
            axes.plot(x, own.column("clean").mean(), "_", color=COLOURS[index], markersize=9)
    axes.set_xticks(range(len(attackers)), attackers)
    axes.set(ylabel="accuracy", ylim=(-0.02, None), xlabel="attacker (dots: robust, dashes: clean accuracy)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def figure_2(rows: Rows) -> Figure:
    """Median θ of every pair of stages, layer by layer."""
    figure, (axes,) = panels(1, width=6.0, height=2.9)
    layers = sorted(rows.of("theta").distinct("layer"))
    names = {
        "start, clean": "θ(w⁰, w)",
        "start, adversarial": "θ(w⁰, w')",
        "clean, adversarial": "θ(w, w')",
        "clean, more clean epochs": "θ(w, w'), more clean epochs",
        "clean, noise only": "θ(w, w'), noise only",
        "different neurons": "θ(wᵢ, wⱼ)",
    }
    width = 0.8 / len(names)
    for index, (pair, label) in enumerate(names.items()):
        heights = [rows.of("theta", layer=layer, pair=pair).column("median").mean() for layer in layers]
        spots = [i + (index - (len(names) - 1) / 2) * width for i in range(len(layers))]
        axes.bar(spots, heights, width=0.9 * width, color=COLOURS[index], label=label)
    axes.set_xticks(range(len(layers)), [f"layer {layer}" for layer in layers])
    axes.set(ylabel="median over neurons", ylim=(0, 1), xlabel="dashed: what the paper has for θ(w, w')")
    guide(axes, 0.8, "", along="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def figure_5(rows: Rows) -> Figure:
    """The share of positive ReLU outputs of every layer along training."""
    figure, (axes,) = panels(1, width=5.4, height=3.0)
    parts = rows.of("activation").groups("layer")
    depth, shades = max(parts), plt.get_cmap("viridis")
    for layer, own in parts.items():
        x, _, middle, _ = over_seeds(own, "epoch", "share")
        axes.plot(x, middle, color=shades((layer - 1) / max(1, depth - 1)), linewidth=1.0)
    axes.set(xlabel="epoch", ylabel="share of positive ReLU outputs", ylim=(0, None))
    scale = ScalarMappable(Normalize(1, depth), shades)
    figure.colorbar(scale, ax=axes, label="ReLU, from first to last")
    return figure


def figure_12(rows: Rows) -> Figure:
    """Coefficients used against the error: images on the left, perturbations on the right."""
    figure, axes = panels(2, width=3.6, height=3.0)
    labels = {
        "images": {
            "random": "random filters",
            "clean": "clean filters",
            "more clean epochs": "after more clean epochs",
            "noise only": "after epochs with noise",
            "adversarial": "robust filters",
        },
        "perturbations": {
            "clean": "of the clean network",
            "more clean epochs": "after more clean epochs",
            "noise only": "after epochs with noise",
            "adversarial": "of the robust network",
        },
    }
    for spot, (target, names) in zip(axes, labels.items(), strict=True):
        for colour, (name, label) in zip(COLOURS, names.items(), strict=False):
            path = rows.of("path", target=target, network=name).groups("penalty")
            points = [path[penalty] for penalty in sorted(path, reverse=True)]
            x, y = ([own.column(field).mean() for own in points] for field in ("error", "share"))
            spot.plot(x, y, "o-", color=colour, label=label, markersize=3)
        spot.set(
            xlabel="relative squared error", ylabel="share of coefficients used", title=target, xscale="log"
        )
        spot.legend(fontsize=7)
    return figure


def worth(rows: Rows) -> Figure:
    """Accuracy and robust accuracy of each family of the zoo, training by training, with the spread over draws of test images."""
    families = rows.of("worth").groups("network")
    figure, axes = panels(len(families), width=3.4)
    for spot, (network, own) in zip(axes, families.items(), strict=True):
        trainings = own.groups("training")
        for shift, colour, column in ((-0.2, COLOURS[0], "accuracy"), (0.2, COLOURS[1], "robust")):
            values = [part.column(column) for part in trainings.values()]
            places = np.arange(len(values)) + shift
            spread = [value.std() for value in values]
            spot.bar(places, [v.mean() for v in values], 0.4, yerr=spread, color=colour, label=column)
        spot.set(xticks=range(len(trainings)), ylim=(0, 1), title=network)
        spot.set_xticklabels([str(NAMES.get(name, name)) for name in trainings], rotation=20, fontsize=7)
    axes[0].legend(fontsize=7)
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "feature-purification/table-1": table_1,
    "feature-purification/figure-1": partial(gallery, columns=4, facts="filters"),
    "feature-purification/figure-2-deep": figure_2,
    "feature-purification/figure-4": partial(gallery, columns=3),
    "feature-purification/figure-5": figure_5,
    "feature-purification/figure-6": partial(gallery, columns=4, facts="features"),
    "feature-purification/figure-7": partial(gallery, columns=3, facts="alignment"),
    "feature-purification/figure-8-alexnet": partial(gallery, columns=2),
    "feature-purification/figure-9-alexnet": partial(gallery, columns=4, facts="filters"),
    "feature-purification/figure-10": partial(gallery, columns=4, facts="features"),
    "feature-purification/figure-11": partial(gallery, columns=4, facts="features", by="layer"),
    "feature-purification/figure-12": figure_12,
    "feature-purification/figure-12-resnet": figure_12,
    "feature-purification/figure-13": partial(gallery, columns=4, facts="features"),
    "feature-purification/zoo": worth,
}
