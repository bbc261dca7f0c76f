"""A scene as a film: the network at every moment of its training."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch

from featureprism.geometry import unit_rows
from featureprism.networks import BinaryReadout, TwoLayerNet, gaussian_shape, grouped_start
from featureprism.play.scene import DIM, WIDTH, Scene, world
from featureprism.play.tape import Tape
from featureprism.seeds import generator_for
from featureprism.training import Loss, first_layer_descent, gradient_descent

STEP_SIZE = 0.1  # of the per-cluster loss, whose clock the theory uses: descent follows the flow closely
MOST_FRAMES = 320
LEARNED = 0.02  # share of the first loss at which a network counts as trained
AFTERWARDS = 24  # frames that follow
LAST_TIME, LARGEST_STEP, GROUPED_FRAMES = 600.0, 4.0, 150  # of networks that are told every cluster
FILMS = 8  # kept in memory, about 5 MB each

Net = TwoLayerNet | BinaryReadout


class Moment(NamedTuple):
    """A network at a time of its training."""

    time: float
    net: Net


def moments(scene: Scene) -> Iterator[Moment]:
    """The network from its start until it has learned."""
    return _moments_of_every_cluster(scene) if scene.labels == "all" else _moments_of_two_labels(scene)


def _moments_of_two_labels(scene: Scene) -> Iterator[Moment]:
    """Descent on the square loss from a balanced start of equal norms."""
    where, size = world(scene), 10**scene.start
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(WIDTH // 2)
    shape = unit_rows(gaussian_shape(WIDTH, DIM, generator=generator_for("start", scene.seed)))
    net = TwoLayerNet(size * shape, size * signs, activation=scene.neurons)
    loss = Loss("square", "per-cluster", num_clusters=where.clusters.num_clusters)
    per_frame = max(1, round((12 - math.log(size)) / 16))  # the smaller the start, the longer it takes
    x, y, left = where.train.x, where.train.y, MOST_FRAMES
    losses: list[float] = []
    while left:
        yield Moment(len(losses) * per_frame * STEP_SIZE, net)
        with torch.no_grad():
            losses.append(float(loss.value(net(x), y)))
        left = min(left - 1, AFTERWARDS if _has_learned(losses) else left)
        net = gradient_descent(net, x, y, loss=loss, step_size=STEP_SIZE, steps=per_frame).last


def _has_learned(losses: list[float]) -> bool:
    """Whether the loss is small, or has fallen and now hardly falls any more."""
    first, last = losses[0], losses[-1]
    before = losses[-AFTERWARDS] if len(losses) >= AFTERWARDS else first
    return last < LEARNED * first or (last < first / 2 and before - last < LEARNED * first)


def _moments_of_every_cluster(scene: Scene) -> Iterator[Moment]:
    """Descent on the cross-entropy of the clusters; times grow geometrically, as directions turn long before logits grow."""
    where, size = world(scene), 10**scene.start
    x, cluster, labels = where.train.x, where.train.cluster, where.clusters.labels
    per_class = max(1, WIDTH // len(labels))
    net = grouped_start(
        len(labels), per_class, DIM, size / DIM**0.5, generator=generator_for("start", scene.seed)
    )
    first = min(size, 1.0) / 30
    growth = (LAST_TIME / first) ** (1 / (GROUPED_FRAMES - 2))
    now = 0.0
    for index in range(GROUPED_FRAMES):
        yield Moment(now, BinaryReadout(net, labels))
        then = first * growth**index
        steps = math.ceil((then - now) / LARGEST_STEP)
        step = per_class * (then - now) / steps  # the mean over a group divides every gradient by its size
        net = first_layer_descent(net, x, cluster, step_size=step, steps=steps).last
        now = then


@lru_cache(maxsize=FILMS)
def _film(scene: Scene) -> Tape[Moment]:
    return Tape(moments(scene))


def film(scene: Scene) -> Tape[Moment]:
    """The film of a scene, the same for every plane that it is seen in."""
    return _film(scene.anywhere())
