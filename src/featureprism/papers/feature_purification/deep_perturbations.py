"""Figures 7, 4 and 12: what perturbations look like, and how sparsely filters give images and perturbations back."""

from itertools import pairwise
from math import inf, nan

import torch
from torch import Tensor, nn

from featureprism.data.images import ImageSet
from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.deep_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROL,
    FROM_CLEAN,
    RANDOM,
    between,
    differences,
    images_of,
    means,
    perturbations,
    scales,
    start,
    trained,
)
from featureprism.probes.images import energy_share, principal_directions
from featureprism.probes.sparse_images import conv_lasso, filters_of, sparsity_of
from featureprism.records import Claim, Experiment, Progress, Row, judge, picture, rows_of
from featureprism.seeds import generator_for

ROBUST = "adversarial"
SHOWN = 6  # pictures in a figure
PENALTIES = [0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002, 0.001]  # λ, for images of norm 1
ERROR = 0.1  # relative squared error at which sparsities are compared
LASSO_STEPS = 150


def amplified(delta: Tensor) -> Tensor:
    """Perturbations as pictures: grey is 0, the largest entry of each is black or white."""
    return 0.5 + 0.5 * delta / delta.flatten(1).abs().amax(dim=1).clamp_min(1e-12).reshape(-1, 1, 1, 1)


def measure_7(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Perturbations of the clean and of the robust network, and their energy in the first principal components of images."""
    data = images_of(setting, seed)
    x, y = data.x_test, data.y_test
    rows: list[Row] = []
    nets = _pair(setting, data, seed, RANDOM, progress)
    directions = principal_directions(data.x_train.flatten(1), share=0.1)
    own = energy_share((x - data.x_train.mean(dim=0)).flatten(1), directions)
    rows.append({"kind": "alignment", "network": "images", "share": float(own.mean())})
    for name, net in nets.items():
        delta = perturbations(net, setting, x, y, seed)
        share = energy_share(delta.flatten(1), directions)
        rows.append({"kind": "alignment", "network": name, "share": float(share.mean())})
        rows += [
            {"kind": "picture", "network": name, "index": i, **picture(image)}
            for i, image in enumerate(amplified(delta[:SHOWN]))
        ]
    rows += [
        {"kind": "picture", "network": "images", "index": i, **picture(image)}
        for i, image in enumerate(x[:SHOWN])
    ]
    return rows


def _pair(setting: Row, data: ImageSet, seed: int, training: str, progress: Progress) -> dict[str, nn.Module]:
    """The clean network and the one trained against ℓ2(1, 0.25), from random or from clean weights."""
    return {
        CLEAN: trained(setting, data, seed, CLEAN, progress=between(progress, 0, 0.3)),
        ROBUST: trained(setting, data, seed, training, progress=between(progress, 0.3, 0.8)),
    }


def _claims_7(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "alignment")
    robust, clean, own = (means(found, "share", network=name) for name in (ROBUST, CLEAN, "images"))
    return [
        judge(
            "figure-7.alignment",
            "feature-purification, Figure 7",
            "share of the perturbations' energy in the first 10 % of the images' principal components, robust minus clean network",
            differences(robust, clean),
            ">",
            0.0,
            f"robust {sum(robust) / len(robust):.2f}, clean {sum(clean) / len(clean):.2f}, images {sum(own) / len(own):.2f}",
        )
    ]


def _targets(images: Tensor) -> Tensor:
    """Images shifted to mean zero in each channel (footnote 18)."""
    return images - images.mean(dim=(2, 3), keepdim=True)


def measure_12(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Lasso paths: images by random, clean and robust filters; perturbations of both networks by robust filters."""
    data = images_of(setting, seed)
    nets = {"random": start(setting, data, seed), **_pair(setting, data, seed, FROM_CLEAN, progress)}
    nets[CONTROL] = trained(setting, data, seed, CONTROL)
    x, y = data.x_test[: setting["lasso_images"]], data.y_test[: setting["lasso_images"]]
    size = x.shape[-1]
    filters = {name: filters_of(conv_layers(net)[0], size) for name, net in nets.items()}
    tasks = {("images", name): (atoms, _targets(x)) for name, atoms in filters.items()}
    for name in (CLEAN, ROBUST):
        delta = perturbations(nets[name], setting, x, y, seed)
        tasks["perturbations", name] = (filters[ROBUST], _targets(delta))
    rows = []
    for place, ((target, name), (atoms, images)) in enumerate(tasks.items()):
        path = sparsity_of(
            atoms, images, PENALTIES, steps=LASSO_STEPS, generator=generator_for("lasso", seed)
        )
        rows += [{"kind": "path", "target": target, "network": name, **point._asdict()} for point in path]
        progress(0.8 + 0.2 * (place + 1) / len(tasks))
    return rows


def share_at(rows: list[Row], error: float) -> float:
    """The share of coefficients used where the error falls to a value, interpolated; NaN where it never does."""
    path = sorted(rows, key=lambda row: -row["error"])
    for before, now in pairwise(path):
        if before["error"] > error >= now["error"]:
            weight = (before["error"] - error) / (before["error"] - now["error"])
            return before["share"] + weight * (now["share"] - before["share"])
    return float("nan")


def _ratio(rows: list[Row], target: str, first: str, second: str) -> list[float]:
    """Shares at ERROR of one network over another, seed by seed."""
    found = rows_of(rows, "path", target=target)
    ratios = []
    for seed in sorted({row["seed"] for row in found}):
        shares = [
            share_at([r for r in found if r["seed"] == seed and r["network"] == name], ERROR)
            for name in (first, second)
        ]
        ratios.append(shares[0] / shares[1])
    return ratios


def _claims_12(rows: list[Row]) -> list[Claim]:
    source = "feature-purification, Figure 12"
    return [
        judge(
            "figure-12.sparser",
            source,
            f"coefficients to reconstruct images at a relative squared error of {ERROR}: robust ÷ clean filters",
            _ratio(rows, "images", ROBUST, CLEAN),
            "<",
            1.0,
            "first layer of AlexNet; filters brought to norm 1",
        ),
        judge(
            "figure-12.control",
            source,
            "the same, robust filters ÷ those after as many more clean epochs",
            _ratio(rows, "images", ROBUST, CONTROL),
            "<",
            1.0,
        ),
        judge(
            "figure-12.random",
            source,
            "the same, clean ÷ random filters",
            _ratio(rows, "images", CLEAN, "random"),
            "<",
            1.0,
        ),
        judge(
            "figure-12.perturbations",
            source,
            "coefficients to reconstruct perturbations by robust filters: those of the robust ÷ those of the clean network",
            _ratio(rows, "perturbations", ROBUST, CLEAN),
            "<",
            1.0,
        ),
    ]


def measure_4(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Images beside their sparse reconstruction by the robust network's first layer."""
    data = images_of(setting, seed)
    net = trained(setting, data, seed, FROM_CLEAN, progress=between(progress, 0, 0.8))
    x = data.x_test[:SHOWN]
    centred = _targets(x)
    lengths = torch.linalg.vector_norm(centred.flatten(1), dim=1).reshape(-1, 1, 1, 1)
    filters = filters_of(conv_layers(net)[0], x.shape[-1])
    codes, back, error = None, centred, inf
    for penalty in PENALTIES:  # the sparsest of the path that is close enough
        codes = conv_lasso(
            filters,
            centred / lengths,
            penalty,
            steps=2 * LASSO_STEPS,
            start=codes,
            generator=generator_for("lasso", seed),
        )
        back = filters.images(codes) * lengths
        error = float((((back - centred) / lengths) ** 2).flatten(1).sum(dim=1).mean())
        if error <= ERROR:
            break
    assert codes is not None
    used = float((codes != 0).double().mean()) if error <= ERROR else nan
    shown = {"images": x, "reconstructions": back + (x - centred)}
    rows: list[Row] = [{"kind": "sparsity", "share": used, "error": error}]
    rows += [
        {"kind": "picture", "network": name, "index": i, **picture(image)}
        for name, pictures in shown.items()
        for i, image in enumerate(pictures)
    ]
    return rows


def _claims_4(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "sparsity")
    error = means(found, "error")
    return [
        judge(
            "figure-4.sparsity",
            "feature-purification, Figure 4",
            f"share of coefficients that give an image back from robust features up to a relative squared error of {ERROR}",
            means(found, "share"),
            "<",
            0.0405,
            f"relative squared error {sum(error) / len(error):.3f}; the paper does not say which it allows",
        )
    ]


FIGURE_7 = Experiment(
    id="feature-purification/figure-7",
    source="feature-purification, Figure 7",
    title="Perturbations before and after adversarial training",
    scales=scales(),
    measure=measure_7,
    claims=_claims_7,
    long=True,
    about=(
        "ℓ2 perturbations of radius 1 (PGD without noise) of a clean network and of one trained against ℓ2(1, 0.25). The principal"
        " components are those of the training images around their mean; noise without structure would have a share of 0.1."
    ),
)
ALEX = {
    "every": ALEXNET | {"lasso_images": 100},
    "quick": ALEXNET_QUICK | {"lasso_images": 40},
}
FIGURE_12 = Experiment(
    id="feature-purification/figure-12",
    source="feature-purification, Figure 12",
    title="Sparse reconstruction of images and of perturbations",
    scales=scales(**ALEX),
    measure=measure_12,
    claims=_claims_12,
    long=True,
    about=(
        "Convolutional Lasso by FISTA on the 64 filters (11 × 11) of AlexNet's first layer, after clean training and after"
        " adversarial training that starts from it; images have mean zero in each channel and"
        " norm 1, filters norm 1. A coefficient counts unless it is exactly zero."
    ),
)
FIGURE_4 = Experiment(
    id="feature-purification/figure-4",
    source="feature-purification, Figure 4",
    title="Images from few robust features",
    scales=scales(**ALEX),
    measure=measure_4,
    claims=_claims_4,
    long=True,
    about="The Lasso of figure-12 at the largest λ that is close enough: test images, and what robust filters give back.",
)
