"""Convolutional Lasso on the filters of a first layer, shared by figures 4 and 12."""

from dataclasses import dataclass
from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.image_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROLS,
    ImageSetting,
    four,
    images_of,
    perturbations,
    scales,
    start,
)
from featureprism.probes.sparse_images import (
    Filters,
    conv_lasso,
    filters_of,
    span_error,
    sparsity_of,
    squared_norm,
)
from featureprism.seeds import generator_for

ROBUST = "adversarial"
ERROR = 0.1  # relative squared error at which sparsities are compared
LASSO_ABOUT = (
    "Convolutional Lasso by FISTA after clean training, after adversarial training that starts from it, and after both controls; images"
    " have mean zero in each channel and norm 1, filters norm 1. A coefficient counts unless it is exactly zero."
)


@dataclass(frozen=True, kw_only=True)
class LassoSetting(ImageSetting):
    """So many images, and the perturbations of each, are reconstructed by so many steps of FISTA for each λ. Section 8.3."""

    lasso_images: int = 100
    lasso_steps: int = 150
    penalties: tuple[float, ...] = (
        0.2,
        0.1,
        0.05,
        0.03,
        0.02,
        0.01,
        0.005,
        0.002,
        0.001,
    )  # of images of norm 1


def _targets(images: Tensor) -> Tensor:
    """Images shifted to mean zero in each channel (footnote 18)."""
    return images - images.mean(dim=(2, 3), keepdim=True)


def measure_paths(s: LassoSetting, seed: int, context: Context) -> list[Row]:
    """Lasso paths: images by filters of every network; perturbations of every network by robust filters, and their span."""
    data = images_of(s, seed, context)
    nets = {"random": start(s, data, seed), **four(s, data, seed, context.within(0, 0.8))}
    x, y = data.x_test[: s.lasso_images], data.y_test[: s.lasso_images]
    filters = {name: filters_of(conv_layers(net)[0], x.shape[-1]) for name, net in nets.items()}
    tasks = {("images", name): (atoms, _targets(x)) for name, atoms in filters.items()}
    for name in (CLEAN, *CONTROLS, ROBUST):
        delta = perturbations(nets[name], s, x, y, seed)
        tasks["perturbations", name] = (filters[ROBUST], _targets(delta))
    outside = span_error(*tasks["perturbations", CLEAN])
    span: Row = {"kind": "span", "network": CLEAN, "error": float(outside.mean())}
    rows = [span]
    for index, ((target, name), (atoms, images)) in enumerate(tasks.items()):
        path = sparsity_of(
            atoms, images, s.penalties, steps=s.lasso_steps, generator=generator_for("lasso", seed)
        )
        rows += [{"kind": "path", "target": target, "network": name, **point._asdict()} for point in path]
        context.progress(0.8 + 0.2 * (index + 1) / len(tasks))
    return rows


def sparsest(filters: Filters, x: Tensor, s: LassoSetting, seed: int) -> tuple[Row, Tensor]:
    """The sparsest codes of a Lasso path whose images are close enough: their share of coefficients and error, and the images."""
    centred = _targets(x)
    lengths = torch.linalg.vector_norm(centred.flatten(1), dim=1).reshape(-1, 1, 1, 1)
    bound = squared_norm(filters, tuple(x.shape[1:]), generator=generator_for("lasso", seed))
    codes, back, error = None, centred, inf
    for penalty in s.penalties:
        codes = conv_lasso(
            filters,
            centred / lengths,
            penalty,
            bound=bound,
            steps=2 * s.lasso_steps,
            start=codes,
        )
        back = filters.images(codes) * lengths
        error = float((((back - centred) / lengths) ** 2).flatten(1).sum(dim=1).mean())
        if error <= ERROR:
            break
    assert codes is not None
    used = float((codes != 0).double().mean()) if error <= ERROR else nan
    return {"share": used, "error": error}, back + (x - centred)


def draw_paths(rows: Rows) -> Any:
    """Coefficients used against the error: images on the left, perturbations on the right."""
    from featureprism.lab.style import COLOURS, panels

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
            x, y = ([part.column(field).mean() for part in points] for field in ("error", "share"))
            spot.plot(x, y, "o-", color=colour, label=label, markersize=3)
        spot.set(
            xlabel="relative squared error", ylabel="share of coefficients used", title=target, xscale="log"
        )
        spot.legend(fontsize=7)
    return figure


FEWER: Row = {"lasso_images": 10, "lasso_steps": 60, "penalties": (0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002)}
ALEXNET_SCALES = scales(LassoSetting, every=ALEXNET, quick=ALEXNET_QUICK | FEWER)
