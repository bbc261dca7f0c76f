"""Figures 7, 4 and 12: what perturbations look like, and how sparsely filters give images and perturbations back."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import inf, nan
from typing import Literal

import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most, below
from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.deep_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROL_CLAIMS,
    CONTROL_TOLD,
    CONTROLS,
    FOUR,
    SHIPPED_ABOUT,
    UNSHIPPED,
    WIDE,
    Setting,
    components,
    foretell,
    four,
    images_of,
    over_controls,
    perturbations,
    pictures,
    scales,
    share,
    shares_told,
    start,
)
from featureprism.probes.images import energy_share
from featureprism.probes.sparse_images import (
    Filters,
    conv_lasso,
    filters_of,
    span_error,
    sparsity_of,
    squared_norm,
)
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.zoo import share_weights

ROBUST = "adversarial"
SHOWN = 6  # pictures in a figure
ERROR = 0.1  # relative squared error at which sparsities are compared


@dataclass(frozen=True, kw_only=True)
class Lasso(Setting):
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


def amplified(delta: Tensor) -> Tensor:
    """Perturbations as pictures: grey is 0, the largest entry of each is black or white."""
    return 0.5 + 0.5 * delta / delta.flatten(1).abs().amax(dim=1).clamp_min(1e-12).reshape(-1, 1, 1, 1)


def measure_7(s: Setting, seed: int, context: Context) -> list[Row]:
    """Perturbations of the clean and of the robust network, and their energy in the first principal components of images."""
    data = images_of(s, seed, context)
    x, nets = data.x_test, four(s, data, seed, context.within(0, 0.8))
    directions = components(data)
    own = energy_share((x - data.x_train.mean(dim=0)).flatten(1), directions)
    rows: list[Row] = [{"kind": "alignment", "network": "images", "share": float(own.mean())}]
    for name, net in nets.items():
        delta = perturbations(net, s, x, data.y_test, seed)
        energy = energy_share(delta.flatten(1), directions)
        rows.append({"kind": "alignment", "network": name, "share": float(energy.mean())})
        rows += pictures(name, amplified(delta[:SHOWN]))
    return rows + pictures("images", x[:SHOWN])


def _targets(images: Tensor) -> Tensor:
    """Images shifted to mean zero in each channel (footnote 18)."""
    return images - images.mean(dim=(2, 3), keepdim=True)


def measure_12(s: Lasso, seed: int, context: Context) -> list[Row]:
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


def share_at(path: Rows, error: float) -> float:
    """The share of coefficients used where the error falls to a value, interpolated; NaN where it never does."""
    points = sorted(zip(path.column("error"), path.column("share"), strict=True), reverse=True)
    for (before, more), (now, less) in pairwise(points):
        if before > error >= now:
            return more + (before - error) / (before - now) * (less - more)
    return nan


def sparsest(filters: Filters, x: Tensor, s: Lasso, seed: int) -> tuple[Row, Tensor]:
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


def measure_4(s: Lasso, seed: int, context: Context) -> list[Row]:
    """Images beside their sparse reconstructions by the first layer of the clean and the robust network and of both controls."""
    data = images_of(s, seed, context)
    nets, x = four(s, data, seed, context.within(0, 0.8)), data.x_test[:SHOWN]
    rows = pictures("images", x)
    for name, net in nets.items():
        found, back = sparsest(filters_of(conv_layers(net)[0], x.shape[-1]), x, s, seed)
        rows += [{"kind": "sparsity", "network": name, **found}, *pictures(name, back)]
    return rows


ALIGNED = "share of the perturbations' energy in the first 10 % of the images' principal components"
CLAIMS_7 = (
    Claim(
        "alignment",
        "feature-purification, Figure 7",
        f"{ALIGNED}, robust minus clean network",
        lambda rows: share(rows, "alignment", ROBUST) - share(rows, "alignment", CLEAN),
        above(0.0),
        note=shares_told("alignment", ROBUST, CLEAN, *CONTROLS, "images"),
    ),
    *over_controls("alignment", "feature-purification, Figure 7", ALIGNED),
)
CLAIMS_4 = (
    Claim(
        "sparsity",
        "feature-purification, Figure 4",
        f"share of coefficients that give an image back from robust features up to a relative squared error of {ERROR}",
        lambda rows: share(rows, "sparsity", ROBUST),
        at_most(0.0405),
        reported=0.0405,
        note=lambda rows: (
            f"relative squared error {rows.of('sparsity', network=ROBUST).column('error').mean():.3f}; the paper does not say which"
            f" it allows; {shares_told('sparsity', ROBUST, CLEAN, *CONTROLS)(rows)}"
        ),
    ),
    *(
        Claim(
            name,
            "feature-purification, Figure 4",
            f"coefficients that give an image back: robust features ÷ those after {CONTROL_TOLD[control]}",
            lambda rows, control=control: share(rows, "sparsity", ROBUST) / share(rows, "sparsity", control),
            below(1.0),
            "featureprism",
        )
        for name, control in CONTROL_CLAIMS.items()
    ),
)


def _claim_12(
    name: str,
    statement: str,
    target: str,
    first: str,
    second: str,
    origin: Literal["paper", "featureprism"] = "paper",
    note: Callable[[Rows], str] | str = "",
) -> Claim:
    """Coefficients at ERROR of one network ÷ those of another."""

    def share_of(rows: Rows, network: str) -> Values:
        path = rows.of("path", target=target, network=network)
        return path.per_seed(lambda own: share_at(own, ERROR))

    def value(rows: Rows) -> Values:
        return share_of(rows, first) / share_of(rows, second)

    return Claim(name, "feature-purification, Figure 12", statement, value, below(1.0), origin, note=note)


def _span_note(rows: Rows) -> str:
    """Remark 8.2: perturbations of the clean network lie in the span of robust filters, as everything does that filters can reach."""
    left = rows.of("span").column("error").mean()
    return f"regression on robust filters at all places leaves {left:.2g} of those of the clean network"


CLAIMS_12 = (
    _claim_12(
        "sparser",
        f"coefficients to reconstruct images at a relative squared error of {ERROR}: robust ÷ clean filters (of norm 1)",
        "images",
        ROBUST,
        CLEAN,
    ),
    *(
        _claim_12(
            name,
            f"the same, robust filters ÷ those after {CONTROL_TOLD[control]}",
            "images",
            ROBUST,
            control,
            origin="featureprism",
        )
        for name, control in CONTROL_CLAIMS.items()
    ),
    _claim_12("random", "the same, clean ÷ random filters", "images", CLEAN, "random"),
    _claim_12(
        "perturbations",
        "coefficients to reconstruct perturbations by robust filters: those of the robust ÷ those of the clean network",
        "perturbations",
        ROBUST,
        CLEAN,
        note=_span_note,
    ),
    *(
        _claim_12(
            f"perturbations-{name}",
            f"the same, those of the robust network ÷ those after {CONTROL_TOLD[control]}",
            "perturbations",
            ROBUST,
            control,
            origin="featureprism",
        )
        for name, control in CONTROL_CLAIMS.items()
    ),
)


FIGURE_7 = Experiment(
    id="feature-purification/figure-7",
    source="feature-purification, Figure 7",
    title="Perturbations before and after adversarial training",
    scales=scales(Setting, quick={"test_images": 100, "test_steps": 10}),
    measure=measure_7,
    claims=CLAIMS_7,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(*FOUR),
    about=(
        "ℓ2 perturbations of radius 1 (PGD without noise) of a clean network and of one trained against ℓ2(1, 0.25). The principal"
        " components are those of the training images around their mean; noise without structure would have a share of 0.1. "
        + SHIPPED_ABOUT
    ),
)
LASSO = (
    "Convolutional Lasso by FISTA after clean training, after adversarial training that starts from it, and after both controls; images"
    " have mean zero in each channel and norm 1, filters norm 1. A coefficient counts unless it is exactly zero."
)
FEWER = {"lasso_images": 10, "lasso_steps": 60, "penalties": (0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002)}
ALEX = scales(Lasso, every=ALEXNET, quick=ALEXNET_QUICK | FEWER)
FIGURE_12 = Experiment(
    id="feature-purification/figure-12",
    source="feature-purification, Figure 12",
    title="Sparse reconstruction of images and of perturbations",
    scales=ALEX,
    measure=measure_12,
    claims=CLAIMS_12,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(*FOUR),
    about=f"The 64 filters (11 × 11) of AlexNet's first layer. {LASSO} {SHIPPED_ABOUT}",
)
FIGURE_12_RESNET = Experiment(
    id="feature-purification/figure-12-resnet",
    source="feature-purification, Figure 12 (ResNet)",
    title="Sparse reconstruction by a ResNet's first layer",
    scales=scales(Lasso, quick={"zoo": WIDE, "train_images": 3000, "lasso_images": 10, "lasso_steps": 60}),
    measure=measure_12,
    claims=CLAIMS_12,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(*FOUR),
    about=f"The filters (3 × 3) of a wide ResNet's first layer. {LASSO} {SHIPPED_ABOUT if WIDE else UNSHIPPED}",
)
FIGURE_4 = Experiment(
    id="feature-purification/figure-4",
    source="feature-purification, Figure 4",
    title="Images from few robust features",
    scales=ALEX,
    measure=measure_4,
    claims=CLAIMS_4,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(*FOUR),
    about="The Lasso of figure-12 at the largest λ that is close enough: test images, and what the filters of each network give back.",
)
