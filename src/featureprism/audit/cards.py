"""A card for every neuron or group of near-duplicates: what it looks at, for whom it votes, how much of the margin is its own."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.audit.anatomy import Neurons, Subject, subject
from featureprism.geometry import unit_rows
from featureprism.lab.rows import Row
from featureprism.probes import cosines

EXCITING = 5  # points shown on a card
ALIKE = 0.95  # cosine of input weights from which neurons with the same vote share a card


@dataclass(frozen=True)
class NeuronCard:
    """What one neuron, or a group of neurons with nearly the same direction, looks at.

    Attributes
    ----------
    neuron : int
        The strongest neuron of the card.
    votes_for : str
        The class it votes for.
    cosines : tuple of float
        Cosines of the mean direction with the means of the sub-classes.
    nearest : int
        The sub-class with the largest cosine.
    purity : float
        max_k c_k²/Σ_k c_k² over the positive cosines: 1 for one sub-class, 1/k for an even mixture of k.
    exciting : tuple of int
        Rows of the data that excite it most, the most exciting first.
    active_share : float
        Share of the points at which one of the neurons is active.
    margin_share : float
        Share of the mean margin against the strongest other class; all neurons add up to 1 where there are no biases.
    universal_share : float
        Share of how fast the margin falls along the universal direction.
    members : tuple of int
        All neurons of the card, the strongest first.
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
    members: tuple[int, ...] = ()  # all neurons of the card, the strongest first

    @property
    def size(self) -> int:
        """How many neurons the card speaks for."""
        return max(1, len(self.members))

    def as_row(self) -> Row:
        """The card as a flat row; the cosines, the points and the members are lists."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {name: list(getattr(self, name)) for name in ("cosines", "exciting", "members")}
        return {"kind": "card", "size": self.size, **row, **lists}


def neuron_cards(
    model: Any, X: Any, y: Any, fine: Any = None, *, most: int | None = None, alike: float = ALIKE
) -> tuple[NeuronCard, ...]:
    """What the neurons of a network with one hidden layer look at.

    Parameters
    ----------
    model : any model that `robust_radius` takes
        A classifier with one hidden layer.
    X : array (n, d)
        Points.
    y : array (n,)
        Their labels.
    fine : array (n,), optional
        Labels finer than y; otherwise clusters are looked for in each class.
    most : int, optional
        Return at most so many cards.
    alike : float
        Neurons with the same vote and a larger cosine share a card; 1 gives each neuron a card.

    Returns
    -------
    tuple of NeuronCard
        The largest share of the margin first.

    Raises
    ------
    ValueError
        If the model has no single hidden layer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> import featureprism as fp
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier((8,), solver='lbfgs', alpha=0.1, max_iter=500, random_state=0).fit(X, y)
    >>> cards = fp.audit.neuron_cards(model, X, y, fine=y)
    >>> sum(card.size for card in cards)
    8
    """
    return cards_of(subject(model, X, y, fine), most=most, alike=alike)


@torch.no_grad()
def cards_of(
    of: Subject,
    direction: Float[Tensor, " d"] | None = None,
    *,
    most: int | None = None,
    alike: float = ALIKE,
) -> tuple[NeuronCard, ...]:
    """The same for a subject that is known; `direction` is the universal one, by default the linear direction of the means."""
    neurons = of.neurons
    if neurons is None:
        raise ValueError("Cards are for networks with one hidden layer of ReLU or its powers.")
    excited = neurons.excited(of.x)
    margin, weakness = _margin_shares(neurons, of, excited), _falls(neurons, of, direction)
    leader = leaders(neurons, margin, alike)
    first, group = torch.unique(leader, return_inverse=True)
    together = torch.nn.functional.one_hot(group, len(first)).double()  # (h, g)
    table = cosines(together.T @ unit_rows(neurons.W), of.mu)
    joint = excited @ (together * neurons.votes.amax(dim=1, keepdim=True))
    positive = table.clamp_min(0) ** 2
    purity = positive.amax(dim=1) / positive.sum(dim=1).clamp_min(1e-300)
    top = joint.topk(min(EXCITING, len(of.x)), dim=0).indices.T
    active = ((excited > 0).double() @ together > 0).double().mean(dim=0)
    margin_sums, weakness_sums = margin @ together, weakness @ together
    strongest = margin.argsort(descending=True)
    return tuple(
        NeuronCard(
            int(first[g]),
            of.names[int(neurons.owner[first[g]])],
            tuple(table[g].tolist()),
            int(table[g].argmax()),
            float(purity[g]),
            tuple(i for i in top[g].tolist() if joint[i, g] > 0),
            float(active[g]),
            float(margin_sums[g]),
            float(weakness_sums[g]),
            tuple(strongest[group[strongest] == g].tolist()),
        )
        for g in margin_sums.argsort(descending=True)[:most].tolist()
    )


def leaders(neurons: Neurons, margin: Float[Tensor, " h"], alike: float) -> Int[Tensor, " h"]:
    """For each neuron the strongest one that it goes with: the same vote, and a cosine of weights above `alike`.

    In the order of their shares of the margin, each that has no leader yet leads all others like it: no chains.
    """
    U, owner = unit_rows(neurons.W), neurons.owner
    leader = torch.full((len(U),), -1)
    for j in margin.argsort(descending=True).tolist():
        if leader[j] < 0:
            like = (U @ U[j] > alike) & (owner == owner[j]) & (leader < 0)
            like[j] = True
            leader[like] = j
    return leader


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
