"""Questions about a network of a film: how far a point is from another decision, how far all of them are, and one direction for all."""

import math
from collections.abc import Iterator
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.attacks import flip_rate, structured_starts, universal_direction
from featureprism.brackets import RadiusBracket
from featureprism.geometry import unit_rows
from featureprism.lab.rows import Row
from featureprism.models import read_model
from featureprism.play.film import Net, film
from featureprism.play.scene import Scene, plane, world
from featureprism.play.tape import Tape
from featureprism.verify import Budget, Query
from featureprism.verify.driver import bracket_points

REACH = 2.0  # how far an attack looks; centres have norm 1
GAP = 0.02  # at which a bracket counts as closed
BRANCHES = 8  # of a proof: seconds on one core for all points of a curve
BATCH = 16  # points between two answers
RADII = 61  # of a curve, from 0 to LARGEST
LARGEST = 0.9


def nearest(scene: Scene, index: int, place: tuple[float, float]) -> Row:
    """The nearest point of another decision to a place in the plane, and the ball around it in which there is none."""
    moment = film(scene).at(index) or film(scene).end()
    return nearest_of(moment.net, scene, torch.tensor([place], dtype=torch.float64))[0]


@torch.no_grad()
def nearest_of(net: Net, scene: Scene, places: Float[Tensor, "n 2"], branches: int = BRANCHES) -> list[Row]:
    """The same for several places of one network. The label of a place is the decision there."""
    axes = plane(scene)
    x = places @ axes
    y = torch.where(net(x) > 0, 1.0, -1.0).double()
    bracket = _bracket(net, scene, x, y, branches)
    assert bracket.witness is not None
    delta = torch.from_numpy(bracket.witness)
    witness = delta @ axes.T
    beside = (delta.square().sum(dim=1) - witness.square().sum(dim=1)).clamp_min(0).sqrt()
    towards = unit_rows(delta) @ unit_rows(world(scene.anywhere()).clusters.mu).T
    return [
        {
            "place": [round(v, 4) for v in places[i].tolist()],
            "label": int(y[i]),
            "certified": float(bracket.certified[i]),
            "attacked": float(bracket.attacked[i]),
            "method": bracket.method[i],
            "witness": [round(v, 4) for v in witness[i].tolist()],
            "beside": round(float(beside[i]), 4),
            "towards": [round(v, 3) for v in towards[i].tolist()],
        }
        for i in range(len(places))
    ]


def _bracket(net: Net, scene: Scene, x: Tensor, y: Tensor, branches: int = BRANCHES) -> RadiusBracket:
    """Branches are counted, not seconds, so that an answer is the same on every machine."""
    clusters = world(scene.anywhere()).clusters
    starts = structured_starts(net, clusters.mu, clusters.labels)
    query, budget = Query(gap=GAP, max_radius=REACH), Budget(branches=branches)
    return bracket_points(read_model(net), x, (y > 0).long(), query, budget, starts=starts)


def brackets(scene: Scene) -> Iterator[Row]:
    """The radius of every test point under the trained network, batch by batch, and at the end the summary; measured once."""
    return iter(_brackets(scene.anywhere()))


@lru_cache(maxsize=64)
def _brackets(scene: Scene) -> Tape[Row]:
    return Tape(_measured(scene))


def _measured(scene: Scene) -> Iterator[Row]:
    net, test = film(scene).end().net, world(scene.anywhere()).test
    brackets: list[RadiusBracket] = []
    for first in range(0, len(test.y), BATCH):
        part = slice(first, first + BATCH)
        brackets.append(_bracket(net, scene, test.x[part], test.y[part]))
        for i in range(len(brackets[-1])):
            yield {
                "kind": "bracket",
                "point": first + i,
                "cluster": int(test.cluster[first + i]),
                "label": int(test.y[first + i]),
                "certified": float(brackets[-1].certified[i]),
                "attacked": float(brackets[-1].attacked[i]),
                "method": brackets[-1].method[i],
            }
    whole = RadiusBracket.joined(brackets)
    yield summary(net, scene, torch.from_numpy(whole.certified), torch.from_numpy(whole.attacked))


def summary(net: Net, scene: Scene, certified: Tensor, attacked: Tensor) -> Row:
    """The radius at which half of the points break, and how many one direction for all of them flips at every radius."""
    where = world(scene.anywhere())
    test, mu = where.test, where.clusters.mu
    eps = float(attacked[torch.isfinite(attacked) & (attacked > 0)].median().nan_to_num(1.0))
    u = universal_direction(net, test.x, test.y, eps)
    radii = torch.linspace(0, LARGEST, RADII, dtype=torch.float64).tolist()
    k = len(scene.classes)
    return {
        "kind": "summary",
        "certified": float(certified.median()),
        "attacked": float(attacked.median()),
        "averaging": 1 / math.sqrt(k),  # where networks that average all features break
        "limit": math.sqrt(0.5),  # beyond half the distance of two centres nothing holds
        "radii": [round(r, 4) for r in radii],
        "universal": [1 - flip_rate(net, test.x, test.y, r * u) for r in radii],
        "direction": [round(v, 3) for v in (unit_rows(mu) @ u).tolist()],
    }
