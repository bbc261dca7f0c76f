"""Figure 8 on AlexNet: which start grows to which filter."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from featureprism.lab import Claim, Experiment, Rows, above
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks.deep import image_network
from featureprism.papers.feature_purification.filters import first_filters, stretched
from featureprism.papers.feature_purification.image_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    ImageSetting,
    images_of,
    pictures,
    scales,
    train_kept,
    trained,
)
from featureprism.seeds import generator_for

SHOWN = 8  # filters, those that end closest to a feature


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


def measure(s: ImageSetting, seed: int, context: Context) -> list[Row]:
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


CLAIMS = (
    Claim(
        "ticket",
        source="Section 6.1, Figure 8",
        says="Filters of a convolutional network grow towards the features that they favoured at the random start.",
        quantity="|cosine| that filters gain with the feature they favoured, minus what other filters gain with it",
        bound=above(0.0),
        because="a start that decides nothing has 0",
        value=lambda rows: rows.of("tickets").per_seed("own_minus_others"),
        note="features: the filters of another training; gained: what is orthogonal to the filter's own start",
    ),
    Claim(
        "luck",
        source="Section 6.1, Figure 8",
        says="Filters that are close to a feature at the random start end closer to one.",
        quantity="Spearman's ρ between the largest |cosine| of a filter at the start and of what it gained",
        bound=above(0.0),
        because="a start that decides nothing has 0",
        value=lambda rows: rows.of("tickets").per_seed("luck"),
    ),
)


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=2)


FIGURE_8_ALEXNET = Experiment(
    id="feature-purification/figure-8-alexnet",
    source="Allen-Zhu & Li 2020, Figure 8",
    title="Lottery tickets: which start grows to which filter",
    scales=scales(ImageSetting, every=ALEXNET, quick=ALEXNET_QUICK | {"epochs": 5, "train_images": 5000}),
    measure=measure,
    claims=CLAIMS,
    slow=True,
    draw=draw,
    about=(
        "AlexNet's 64 filters (11 × 11) from another start for every seed, trained cleanly. Nobody knows the features of real images:"
        " the filters that an independent training ended with stand for them (quick, on CIFAR-10: alexnet-clean of the zoo, for all"
        " seeds). The pictures are the filters that end closest to one of them."
    ),
)
