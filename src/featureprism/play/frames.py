"""What is drawn of a moment: neurons on the compass, masses of the clusters, decisions in the plane."""

import base64
import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import row_norms
from featureprism.lab.rows import Row
from featureprism.networks import BinaryReadout
from featureprism.play.film import Moment, Net, film
from featureprism.play.scene import Scene, plane, world
from featureprism.probes import cosines

GRID = 44  # points along each side of the drawn plane
WINDOW = (-0.6, 1.6, -1.1, 1.1)  # left, right, bottom, top
HALF = 0.44 * math.pi  # positive clusters within this angle of the right, negative ones of the left


def opening(scene: Scene) -> Row:
    """What does not move: where centres stand on the compass, and the points as they fall on the plane."""
    where, axes = world(scene.anywhere()), plane(scene)
    shown = where.train.x @ axes.T
    return {
        "kind": "opening",
        "compass": _rounded(compass(where.clusters.labels)),
        "labels": where.clusters.labels.int().tolist(),
        "window": list(WINDOW),
        "grid": GRID,
        "centres": _rounded(where.clusters.mu @ axes.T),
        "points": _rounded(shown),
        "clusters": where.train.cluster.tolist(),
    }


def frames(scene: Scene) -> Iterator[Row]:
    """The opening, then every moment of the training as a picture."""
    yield opening(scene)
    for moment in film(scene):
        yield frame(scene, moment)


@torch.no_grad()
def frame(scene: Scene, moment: Moment) -> Row:
    """One picture. A neuron stands at Σ_k [cos(w, μ_k)]₊² e_k: on the rim if it is one centre, in between if it averages several.

    The mass of a cluster is Σ_j |a_j|‖w_j‖ [cos(w_j, μ_k)]₊², which is the paper's S_k once every neuron has turned to one centre.
    """
    where = world(scene.anywhere())
    W, mass, sign = neurons(moment.net)
    cosine = cosines(W, where.clusters.mu)
    best, region = cosine.max(dim=1)
    share = cosine.clamp_min(0).square()
    place, masses = share @ compass(where.clusters.labels), mass @ share
    margin = where.train.y * moment.net(where.train.x)
    return {
        "kind": "frame",
        "time": round(moment.time, 5),
        "places": _rounded(place),
        "sizes": _rounded((mass / mass.max().clamp_min(1e-300)).sqrt(), 3),
        "signs": sign.int().tolist(),
        "best": _rounded(best, 3),
        "region": region.tolist(),
        "masses": [float(f"{m:.4g}") for m in masses.tolist()],
        "aligned": round(float((mass * best).sum() / mass.sum().clamp_min(1e-300)), 4),
        "accuracy": round(float((margin > 0).double().mean()), 4),
        "decisions": decisions(moment.net, plane(scene)),
    }


def neurons(net: Net) -> tuple[Float[Tensor, "h d"], Float[Tensor, " h"], Float[Tensor, " h"]]:
    """Directions, masses |a_j|‖w_j‖ and signs of the neurons; those of a class have its label, and the mass ‖w‖²."""
    if isinstance(net, BinaryReadout):
        W = net.net.W.detach().flatten(0, 1)
        return W, row_norms(W) ** 2, net.labels.repeat_interleave(net.net.W.shape[1])
    W, a = net.W.detach(), net.a.detach()
    return W, a.abs() * row_norms(W), torch.sign(a)


def compass(labels: Float[Tensor, " k"]) -> Float[Tensor, "k 2"]:
    """A point on the unit circle for every cluster: positive ones on the right, negative ones on the left."""
    angles = torch.zeros_like(labels)
    for sign, middle in ((1.0, 0.0), (-1.0, math.pi)):
        same_class = labels == sign
        count = int(same_class.sum())
        spread = torch.linspace(1, -1, count, dtype=labels.dtype) if count > 1 else torch.zeros(1)
        angles[same_class] = middle + sign * HALF * spread.to(labels.dtype)
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def decisions(net: Net, axes: Float[Tensor, "2 d"]) -> str:
    """f in the plane of a scene."""
    return decision_bytes(lambda places: net(places @ axes), WINDOW)


@torch.no_grad()
def decision_bytes(f: Callable[[Tensor], Tensor], window: tuple[float, float, float, float]) -> str:
    """f on a grid of the plane, from the top left, in units of its largest value there: signed bytes in base64."""
    left, right, bottom, top = window
    across = torch.linspace(left, right, GRID, dtype=torch.float64)
    down = torch.linspace(top, bottom, GRID, dtype=torch.float64)
    t, s = torch.meshgrid(down, across, indexing="ij")
    values = f(torch.stack([s.flatten(), t.flatten()], dim=1))
    scaled = 127 * torch.sign(values) * (values.abs() / values.abs().max().clamp_min(1e-300)).sqrt()
    towards_sign = torch.where(
        values >= 0, scaled.ceil(), scaled.floor()
    )  # none is rounded to the other side
    return base64.b64encode(towards_sign.to(torch.int8).numpy().tobytes()).decode()


def _rounded(values: Tensor, digits: int = 3) -> list:
    scale = 10**digits
    return (torch.round(values * scale) / scale).tolist()
