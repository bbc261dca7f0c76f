"""Figure 2: how far training and purification turn the neurons of one layer."""

from typing import Any

import torch
from torch import nn

from featureprism.lab import Experiment, Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.exciting_images import LayerSetting
from featureprism.papers.feature_purification.image_setting import (
    CLEAN,
    CONTROL,
    NOISE,
    RANDOM,
    images_of,
)
from featureprism.papers.feature_purification.three_stages import (
    ABOUT,
    layer_scales,
    robust_after,
    stages_of,
)
from featureprism.probes.images import layer_cosines

PAIRS = (("start", CLEAN), ("start", RANDOM), (CLEAN, RANDOM), (CLEAN, CONTROL), (CLEAN, NOISE))
DIFFERENT = "different neurons"  # of the clean network


def measure(s: LayerSetting, seed: int, context: Context) -> list[Row]:
    """θ between the neurons of one layer at the start, after clean and after adversarial training."""
    data = images_of(s, seed, context)
    stages = stages_of(s, data, seed, context)
    layers = {name: conv_layers(net)[s.layer - 1] for name, net in stages.nets.items()}
    cosines = {f"{a}, {b}": layer_cosines(layers[a], layers[b]) for a, b in PAIRS}
    weight = nn.functional.normalize(layers[CLEAN].weight.detach().cpu().flatten(1), dim=1)
    cosines[DIFFERENT] = (weight @ weight.T).abs()[~torch.eye(len(weight), dtype=torch.bool)]
    return [
        {"kind": "stages", **robust_after(stages, s, data, seed), "stage_3_epochs": stages.epochs},
        *(
            {"kind": "theta", "pair": pair, "median": float(c.median()), "mean": float(c.mean())}
            for pair, c in cosines.items()
        ),
    ]


def draw(rows: Rows) -> Any:
    """Median θ of every pair of stages, layer by layer."""
    from featureprism.lab.style import COLOURS, guide, panels

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


FIGURE_2_DEEP = Experiment(
    id="feature-purification/figure-2-deep",
    source="Allen-Zhu & Li 2020, Figure 2",
    title="How far training and purification turn the neurons of one layer",
    scales=layer_scales(LayerSetting),
    measure=measure,
    claims=(),
    slow=True,
    draw=draw,
    about=ABOUT + " θ is the absolute cosine between the weights of one neuron at two stages.",
)
