"""Proofs about several layers: the product of norms, and linear and semidefinite relaxations with branch and bound."""

from abc import abstractmethod

import torch
from jaxtyping import Int
from torch import Tensor

from featureprism.checker.certificate import Certificate
from featureprism.models.model import Model
from featureprism.verify.deep.prove import (
    MOST_INPUTS,
    Asked,
    farthest_proofs,
    linear_proofs,
    norm_certificates,
    proofs_at,
)
from featureprism.verify.method import Method
from featureprism.verify.pairs import Pairs
from featureprism.verify.query import OVERSHOOT, Limits, Query


class NormProduct(Method):
    """margin/(‖v_y - v_r‖ Π‖W_l‖): activations have slopes between 0 and 1."""

    is_cheap = True

    def applies(self, model: Model, query: Query) -> bool:
        return model.layers is not None and model.layers.activation in ("relu", "tanh")

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        model = pairs.model.layers
        assert model is not None
        labels, targets = pairs.label[pairs.point[rows]].tolist(), pairs.target[rows].tolist()
        certificates = norm_certificates(model, pairs.points(rows).numpy(), labels, targets, pairs.query.norm)
        for j, certificate in zip(rows.tolist(), certificates, strict=True):
            pairs.keep(j, certificate)


class _ReluLayers(Method):
    """What both relaxations of layers of ReLU share; abstract."""

    def applies(self, model: Model, query: Query) -> bool:
        layers = model.layers
        return (
            layers is not None and layers.activation == "relu" and layers.weights[0].shape[1] <= MOST_INPUTS
        )

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        model, query = pairs.model.layers, pairs.query
        assert model is not None
        attacked, best = pairs.shortest()
        goal = OVERSHOOT * pairs.goal()
        open_points = torch.unique(pairs.point[rows]).tolist()
        for number, i in enumerate(open_points):
            of_point = torch.nonzero(pairs.point == i)[:, 0]
            known = float(pairs.verified()[of_point].min())
            first = int(pairs.target[best[i]])
            asked = Asked(model, pairs.x[i].numpy(), int(pairs.label[i]), first, query.norm, query.bounds)
            share = limits.share(len(open_points) - number)
            radius = float(attacked[i] if query.eps is None else goal[i])
            proofs = self.of_point(asked, radius, known, query, share)
            limits.note(share)
            for j in of_point.tolist():
                if (certificate := proofs.get(int(pairs.target[j]))) is not None:
                    pairs.keep(j, certificate)

    @abstractmethod
    def of_point(
        self, asked: Asked, radius: float, known: float, query: Query, limits: Limits
    ) -> dict[int, Certificate]:
        """Certificates of one point against its targets; `radius`: eps, or the shortest flip."""


class LinearRelaxation(_ReluLayers):
    """Lines below and above every neuron, from the last layer back to the input (CROWN, Zhang et al. 2018)."""

    is_cheap = True

    def of_point(
        self, asked: Asked, radius: float, known: float, query: Query, limits: Limits
    ) -> dict[int, Certificate]:
        return linear_proofs(asked, radius, known, query)


class SemidefiniteRelaxation(_ReluLayers):
    """A semidefinite relaxation of all layers together, with branch and bound at the kinks of neurons."""

    def of_point(
        self, asked: Asked, radius: float, known: float, query: Query, limits: Limits
    ) -> dict[int, Certificate]:
        if query.eps is not None:
            return proofs_at(asked, radius, limits)
        return farthest_proofs(asked, radius, query.gap, limits, known)
