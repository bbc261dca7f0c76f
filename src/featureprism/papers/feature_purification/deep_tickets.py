"""Figures 8 and 9 on AlexNet: which start grows to which filter, and clean training that brings the mixtures back."""

from copy import deepcopy
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from featureprism.attacks.images import pgd_adversary
from featureprism.context import Context
from featureprism.data.images import ImageSet
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most
from featureprism.networks.deep import image_network
from featureprism.papers.feature_purification.deep_features import (
    FILTERS,
    first_filters,
    longest_filters,
    smoothness,
    stretched,
)
from featureprism.papers.feature_purification.deep_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROL,
    FROM_CLEAN,
    MAIN,
    SHIPPED_ABOUT,
    WITHOUT_NOISE,
    Setting,
    accuracies,
    foretell,
    images_of,
    pictures,
    scales,
    share,
    shares_told,
    shipped,
    start,
    train_kept,
    trained,
)
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.zoo import share_weights

SHOWN = 8  # filters, those that end closest to a feature
START, AGAIN, STILL = "start", "clean again", "adversarial again"
AFTER = {AGAIN: "clean epochs from robust weights", STILL: "as many more adversarial epochs"}


def tickets(
    begin: Float[Tensor, "h d"], end: Float[Tensor, "h d"], features: Float[Tensor, "k d"]
) -> tuple[Float[Tensor, "h k"], Float[Tensor, "h k"]]:
    """|cos| of every neuron with every feature: at the start, and of what it gained, which is orthogonal to its start."""
    begin, end, features = (normalize(rows.double(), dim=1) for rows in (begin, end, features))
    gained = normalize(end - (end * begin).sum(dim=1, keepdim=True) * begin, dim=1)
    return (begin @ features.T).abs(), (gained @ features.T).abs()


def own_minus_others(early: Float[Tensor, "h k"], late: Float[Tensor, "h k"]) -> float:
    """Correlation gained with the feature that a neuron favoured at the start, minus what other neurons gained with it."""
    chosen = late[:, early.argmax(dim=1)]  # (h, h): neurons, and the favourites of all neurons
    own, num = chosen.diagonal().mean(), len(chosen)
    return float(own - (chosen.sum() - chosen.trace()) / (num * (num - 1)))


def rank_correlation(x: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> float:
    """Spearman's ρ."""
    ranks = torch.stack([v.argsort().argsort().double() for v in (x, y)])
    return float(torch.corrcoef(ranks)[0, 1])


def measure_8(s: Setting, seed: int, context: Context) -> list[Row]:
    """The first layer of an AlexNet from another start, after every epoch, beside the filters that the first training ended with."""
    data = images_of(s, seed, context)
    features = first_filters(trained(s, data, seed, CLEAN, context.within(0, 0.5))).flatten(1)
    channels, height, width = data.x_train.shape[1:]
    net = image_network(
        s.network,
        (channels, height, width),
        int(data.y_train.max()) + 1,
        factor=s.factor,
        generator=generator_for("another start", seed),
    )
    begin, history = first_filters(net).clone(), []
    train_kept(
        net,
        s,
        data,
        (s.clean_recipe,),
        seed,
        context.within(0.5, 1),
        {"start": "another"},
        watch=lambda model: {"filters": first_filters(model).clone()},
        history=history,
    )
    moments = {0: begin, **{row["epoch"]: row["filters"] for row in history}}
    early, late = tickets(begin.flatten(1), history[-1]["filters"].flatten(1), features)
    rows: list[Row] = [
        {
            "kind": "tickets",
            "own_minus_others": own_minus_others(early, late),
            "luck": rank_correlation(early.amax(dim=1), late.amax(dim=1)),
            "early": float(early.amax(dim=1).median()),
            "late": float(late.amax(dim=1).median()),
        }
    ]
    winners = late.amax(dim=1).argsort(descending=True)[:SHOWN]
    for epoch, filters in moments.items():
        if epoch & (epoch - 1) == 0 or epoch == len(history):  # 0, 1, 2, 4, …, and the last
            rows += pictures(f"epoch {epoch:03d}", stretched(filters[winners]))
    return rows


def measure_9(s: Setting, seed: int, context: Context) -> list[Row]:
    """AlexNet at the start, after clean and after adversarial training; and after clean and more adversarial epochs from there."""
    data = images_of(s, seed, context)
    robust = trained(s, data, seed, FROM_CLEAN, context.within(0, 0.5))
    attacker = WITHOUT_NOISE[MAIN] if shipped(s, data, FROM_CLEAN) else MAIN
    nets = {
        START: start(s, data, seed),
        CLEAN: trained(s, data, seed, CLEAN, context),
        FROM_CLEAN: robust,
        AGAIN: _go_on(robust, AGAIN, s, data, seed, context.within(0.5, 0.65)),
        STILL: _go_on(
            robust,
            STILL,
            s,
            data,
            seed,
            context.within(0.65, 0.95),
            adversary=pgd_adversary(s.training_attack(attacker)),
        ),
    }
    rows: list[Row] = []
    for name, net in nets.items():
        reached = accuracies(net, s, data, WITHOUT_NOISE[MAIN], seed)
        rows.append({"kind": "filters", "network": name, "share": smoothness(net, data), **reached})
        rows += pictures(name, longest_filters(net))
    return rows


def _go_on(
    net: nn.Module, name: str, s: Setting, data: ImageSet, seed: int, context: Context, **how: Any
) -> nn.Module:
    """More epochs from the weights of a robust network."""
    line = (s.clean_recipe, s.finetune_recipe, s.finetune_recipe)
    known_by = {"training": name, "attack": asdict(s.training_attack())}
    return train_kept(deepcopy(net), s, data, line, seed, context, known_by, **how)


def robustness(rows: Rows, network: str) -> Values:
    """Robust accuracy of a network, seed by seed."""
    return rows.of("filters", network=network).per_seed("robust")


def _robust_told(rows: Rows) -> str:
    names = (CLEAN, FROM_CLEAN, AGAIN, STILL)
    return "robust accuracy: " + ", ".join(f"{name} {robustness(rows, name).mean():.2f}" for name in names)


SOURCE_8, SOURCE_9 = (
    "feature-purification, Section 6.1, Figure 8",
    "feature-purification, Section 6.2, Figure 9",
)
CLAIMS_8 = (
    Claim(
        "ticket",
        SOURCE_8,
        "|cos| that filters gain with the feature they favoured at the start, minus what other filters gain with it",
        lambda rows: rows.of("tickets").per_seed("own_minus_others"),
        above(0.0),
        note="features: the filters of another training; gained: what is orthogonal to the filter's own start",
    ),
    Claim(
        "luck",
        SOURCE_8,
        "luckier at the start, closer to a feature at the end: Spearman's ρ of the largest |cos| of a filter, start and gain",
        lambda rows: rows.of("tickets").per_seed("luck"),
        above(0.0),
    ),
    Claim(
        "grow",
        SOURCE_8,
        "filters grow to features: median of the largest |cos| of what a filter gained ÷ at its start",
        lambda rows: rows.of("tickets").per_seed("late") / rows.of("tickets").per_seed("early"),
        above(1.0),
        note=lambda rows: (
            f"{rows.of('tickets').column('early').mean():.2f} at the start, {rows.of('tickets').column('late').mean():.2f} of the gain"
        ),
    ),
)
CLAIMS_9 = (
    Claim(
        "mixtures-return",
        SOURCE_9,
        f"{FILTERS}, robust minus after {AFTER[AGAIN]}",
        lambda rows: share(rows, "filters", FROM_CLEAN) - share(rows, "filters", AGAIN),
        above(0.0),
        note=shares_told("filters", START, CLEAN, FROM_CLEAN, AGAIN, STILL),
    ),
    Claim(
        "robustness-goes",
        SOURCE_9,
        f"robust accuracy (ℓ2, radius 1) after {AFTER[AGAIN]}",
        lambda rows: robustness(rows, AGAIN),
        at_most(0.10),
        note=_robust_told,
    ),
    Claim(
        "control",
        SOURCE_9,
        f"{FILTERS}, after {AFTER[STILL]} minus after {AFTER[AGAIN]}",
        lambda rows: share(rows, "filters", STILL) - share(rows, "filters", AGAIN),
        above(0.0),
        "featureprism",
        note=_robust_told,
    ),
)
FIGURE_8_ALEXNET = Experiment(
    id="feature-purification/figure-8-alexnet",
    source="feature-purification, Figure 8 (AlexNet)",
    title="Lottery tickets: which start grows to which filter",
    scales=scales(Setting, every=ALEXNET, quick=ALEXNET_QUICK | {"epochs": 5, "train_images": 5000}),
    measure=measure_8,
    claims=CLAIMS_8,
    long=True,
    foretell=foretell(CLEAN, CLEAN),
    about=(
        "AlexNet's 64 filters (11 × 11) from another start for every seed, trained cleanly. Nobody knows the features of real images:"
        " the filters that an independent training ended with stand for them (quick, on CIFAR-10: alexnet-clean of the zoo, for all"
        " seeds). The pictures are the filters that end closest to one of them."
    ),
)
SHORT: Row = {"train_images": 2500, "finetune_epochs": 3, "train_steps": 1, "test_images": 100}
FIGURE_9_ALEXNET = Experiment(
    id="feature-purification/figure-9-alexnet",
    source="feature-purification, Figure 9 (AlexNet)",
    title="Clean training brings the mixtures back",
    scales=scales(Setting, every=ALEXNET, quick=ALEXNET_QUICK | SHORT),
    measure=measure_9,
    claims=CLAIMS_9,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(CLEAN, FROM_CLEAN, CONTROL, FROM_CLEAN),
    about=(
        "From the robust weights (pure features) clean training goes on, and beside it, for as many epochs, adversarial training."
        f" {SHIPPED_ABOUT} What goes on from them is trained for each seed, on its own images."
    ),
)
