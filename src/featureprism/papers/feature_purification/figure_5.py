"""Figure 5: activations become sparse during clean training."""

from typing import Any

from torch import nn

from featureprism.lab import Claim, Experiment, Rows, below
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_purification.image_setting import (
    ImageSetting,
    images_of,
    scales,
    start,
    train_kept,
)
from featureprism.probes.images import activation_shares


def measure(s: ImageSetting, seed: int, context: Context) -> list[Row]:
    """The share of positive ReLU outputs of every layer at the start and after each epoch of clean training."""
    data = images_of(s, seed, context)
    net, seen = start(s, data, seed), data.x_test

    def watch(model: nn.Module) -> Row:
        return {f"relu {i + 1}": positive for i, positive in enumerate(activation_shares(model, seen))}

    history: list[Row] = [{"epoch": 0, **watch(net)}]
    known_by = {"watched": len(seen)}
    train_kept(net, s, data, (s.clean_recipe,), seed, context, known_by, watch=watch, history=history)
    return [
        {"kind": "activation", "epoch": row["epoch"], "layer": int(name.split()[1]), "share": positive}
        for row in history
        for name, positive in row.items()
        if name != "epoch"
    ]


def sparsity(rows: Rows, when: str) -> Values:
    """Mean share of positive ReLU outputs of the deeper half of the layers, at the "start" or the "end" of training."""

    def value(one: Rows) -> float:
        epoch, layer = one.column("epoch"), one.column("layer")
        moment = epoch.max() if when == "end" else 0
        return one.column("share")[(epoch == moment) & (layer > layer.max() / 2)].mean()

    return rows.of("activation").per_seed(value)


CLAIMS = (
    Claim(
        "sparser",
        source="Figure 5",
        says="Clean training makes the activations of the deeper layers sparser.",
        quantity="change factor of the share of positive ReLU outputs in the deeper half in clean training",
        bound=below(1.0),
        because="sparser is any fall",
        value=lambda rows: sparsity(rows, "end") / sparsity(rows, "start"),
        note=lambda rows: (
            f"{sparsity(rows, 'start').mean():.2f} at the start, {sparsity(rows, 'end').mean():.2f} after it"
        ),
    ),
)


def draw(rows: Rows) -> Any:
    """The share of positive ReLU outputs of every layer along training."""
    import matplotlib.pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    from featureprism.lab.style import over_seeds, panels

    figure, (axes,) = panels(1, width=5.4, height=3.0)
    parts = rows.of("activation").groups("layer")
    depth, shades = max(parts), plt.get_cmap("viridis")
    for layer, part in parts.items():
        x, _, middle, _ = over_seeds(part, "epoch", "share")
        axes.plot(x, middle, color=shades((layer - 1) / max(1, depth - 1)), linewidth=1.0)
    axes.set(xlabel="epoch", ylabel="share of positive ReLU outputs", ylim=(0, None))
    figure.colorbar(ScalarMappable(Normalize(1, depth), shades), ax=axes, label="ReLU, from first to last")
    return figure


FIGURE_5 = Experiment(
    id="feature-purification/figure-5",
    source="Allen-Zhu & Li 2020, Figure 5",
    title="Activation sparsity during clean training",
    scales=scales(
        ImageSetting,
        every={"network": "wrn-28-10"},
        quick={"zoo": "", "factor": 0.05, "epochs": 3, "train_images": 2000},
    ),
    measure=measure,
    claims=CLAIMS,
    slow=True,
    draw=draw,
    about=(
        "The share of positive outputs of every ReLU on test images. Quick: a wide ResNet of the same depth, a"
        " twentieth as wide, trained"
        " anew for every seed."
    ),
)
