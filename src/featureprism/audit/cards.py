"""A card for every neuron: what it looks at, for whom it votes, and how much of the margin is its own."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.audit.anatomy import Neurons, Subject, subject
from featureprism.geometry import unit_rows
from featureprism.probes import cosines
from featureprism.records import Row

EXCITING = 5  # points shown on a card


@dataclass(frozen=True)
class NeuronCard:
    """One neuron: cosines with the sub-class means, its class, how pure it is, what excites it, its share of margin and weakness.

    `purity` is max_k c_k²/Σ_k c_k² over the positive cosines c: 1 for one sub-class, 1/k for an even mixture of k. `margin_share`:
    its part of the mean margin against the strongest rival (all neurons add up to 1 where there are no offsets). `universal_share`:
    its part of how fast the margin falls along the universal direction.
    """

    neuron: int
    votes_for: str
    cosines: tuple[float, ...]
    nearest: int  # the sub-class with the largest cosine
    purity: float
    exciting: tuple[int, ...]  # rows of the data, the most exciting first
    active_share: float
    margin_share: float
    universal_share: float

    def as_row(self) -> Row:
        """The card as a flat row; the cosines and the points are lists."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"kind": "card", **row, "cosines": list(self.cosines), "exciting": list(self.exciting)}


def neuron_cards(
    model: Any, X: Any, y: Any, fine: Any = None, *, most: int | None = None
) -> tuple[NeuronCard, ...]:
    """The cards of a network with one hidden layer, the largest share of the margin first; refuses other models."""
    return cards_of(subject(model, X, y, fine), most=most)


@torch.no_grad()
def cards_of(
    of: Subject, direction: Float[Tensor, " d"] | None = None, *, most: int | None = None
) -> tuple[NeuronCard, ...]:
    """The same for a subject that is known; `direction` is the universal one, by default the linear direction of the means."""
    neurons = of.neurons
    if neurons is None:
        raise ValueError("Cards are for networks with one hidden layer of ReLU or its powers.")
    table, excited = cosines(neurons.W, of.mu), neurons.excited(of.x)
    margin, weakness = _margin_shares(neurons, of, excited), _falls(neurons, of, direction)
    positive = table.clamp_min(0) ** 2
    purity = positive.amax(dim=1) / positive.sum(dim=1).clamp_min(1e-300)
    top = excited.topk(min(EXCITING, len(of.x)), dim=0).indices.T
    order = margin.argsort(descending=True)[:most]
    owner, active = neurons.owner, (excited > 0).double().mean(dim=0)
    return tuple(
        NeuronCard(
            j,
            of.names[int(owner[j])],
            tuple(table[j].tolist()),
            int(table[j].argmax()),
            float(purity[j]),
            tuple(i for i in top[j].tolist() if excited[i, j] > 0),
            float(active[j]),
            float(margin[j]),
            float(weakness[j]),
        )
        for j in order.tolist()
    )


def rivals_of(of: Subject) -> Int[Tensor, " n"]:
    """For each point the strongest class that is not its own."""
    scores = of.model.net(of.x)
    if scores.ndim == 1:
        return 1 - of.y
    return scores.scatter(1, of.y.unsqueeze(1), -torch.inf).argmax(dim=1)


def _margin_shares(neurons: Neurons, of: Subject, excited: Float[Tensor, "n h"]) -> Float[Tensor, " h"]:
    """Σ_i φ_ij (V_j,own - V_j,rival)/Σ_ij of the same."""
    rival = rivals_of(of)
    gains = (excited * (neurons.V.T[of.y] - neurons.V.T[rival])).sum(dim=0)
    total = gains.sum()
    return gains / torch.where(total == 0, torch.ones_like(total), total)


def linear_direction(of: Subject) -> Float[Tensor, " d"]:
    """Σ_s ± μ_s as a unit vector, + for the last class; for more than two the mean of the last less the others."""
    signs = torch.where(of.parent == of.num_classes - 1, 1.0, -1.0).double()
    return unit_rows((signs @ of.mu).unsqueeze(0))[0]


def _falls(neurons: Neurons, of: Subject, direction: Tensor | None) -> Float[Tensor, " h"]:
    """V_j,last·⟨w_j, u⟩ in shares of the sum of their sizes."""
    u = linear_direction(of) if direction is None else direction
    pulls = neurons.votes[:, -1] * (neurons.W @ u)
    return pulls / pulls.abs().sum().clamp_min(1e-300)
