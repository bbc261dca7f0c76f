"""Proofs about several layers: the product of norms, and linear and semidefinite relaxations with branch and bound."""

import torch
from jaxtyping import Int
from torch import Tensor

from featureprism.verify.deep.prove import (
    MOST_INPUTS,
    Asked,
    farthest_proofs,
    norm_certificates,
    proofs_at,
)
from featureprism.verify.method import Method
from featureprism.verify.model import Model
from featureprism.verify.pairs import Pairs
from featureprism.verify.query import Limits, Query


class NormProduct(Method):
    """margin/(‖v_y - v_r‖ Π‖W_l‖): activations have slopes between 0 and 1."""

    def applies(self, model: Model, query: Query) -> bool:
        return model.layers is not None

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        model = pairs.model.layers
        assert model is not None
        labels, targets = pairs.label[pairs.point[rows]].tolist(), pairs.target[rows].tolist()
        certificates = norm_certificates(model, pairs.points(rows).numpy(), labels, targets, pairs.query.norm)
        for j, certificate in zip(rows.tolist(), certificates, strict=True):
            pairs.keep(j, certificate)


class SemidefiniteRelaxation(Method):
    """Layers of ReLU: linear relaxations (CROWN), a semidefinite relaxation, and branch and bound at the kinks of neurons."""

    def applies(self, model: Model, query: Query) -> bool:
        layers = model.layers
        return (
            layers is not None and layers.activation == "relu" and layers.weights[0].shape[1] <= MOST_INPUTS
        )

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        model, query = pairs.model.layers, pairs.query
        assert model is not None
        attacked, best = pairs.shortest()
        goal = pairs.goal()
        open_points = torch.unique(pairs.point[rows]).tolist()
        for number, i in enumerate(open_points):
            of_point = torch.nonzero(pairs.point == i)[:, 0]
            known = float(pairs.verified()[of_point].min())
            first = int(pairs.target[best[i]])
            asked = Asked(model, pairs.x[i].numpy(), int(pairs.label[i]), first, query.norm, query.bounds)
            share = limits.share(len(open_points) - number)
            if query.eps is None:
                proofs = farthest_proofs(asked, float(attacked[i]), query.gap, share, known)
            else:
                proofs = proofs_at(asked, float(goal[i]), known, share)
            limits.note(share)
            for j in of_point.tolist():
                if (certificate := proofs.get(int(pairs.target[j]))) is not None:
                    pairs.keep(j, certificate)
