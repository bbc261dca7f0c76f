"""Brackets as the tests want them: limited in branches, so that a busy machine gives the same answer, and as tensors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.brackets import RadiusBracket
from featureprism.checker.proofs import Proof
from featureprism.checker.verify import verified_radii
from featureprism.models import read_model
from featureprism.models.model import as_model
from featureprism.networks import BinaryReadout
from featureprism.networks.readout_proofs import check_readout
from featureprism.verify import Budget, robust_radius


@dataclass(frozen=True)
class InTensors:
    """A bracket whose arrays are tensors; of networks with one output every point has one certificate."""

    bracket: RadiusBracket
    one_output: bool

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.bracket, name)
        return torch.from_numpy(value) if isinstance(value, np.ndarray) and name != "classes" else value

    def __len__(self) -> int:
        return len(self.bracket)

    @property
    def certificates(self) -> tuple:
        every = self.bracket.certificates
        return tuple(next(iter(of.values()), None) for of in every) if self.one_output else every

    def accuracy(self, radii: Any) -> tuple[Tensor, Tensor]:
        low, high = self.bracket.accuracy(np.asarray(radii))
        return torch.from_numpy(low), torch.from_numpy(high)


def asked(net: Any, x: Any, y: Any, *, branches: int = 500, **query: Any) -> InTensors:
    """`robust_radius` with a limit in branches; labels may be tensors."""
    labels = y.numpy() if isinstance(y, Tensor) else y
    bracket = robust_radius(net, x, labels, budget=Budget(branches=branches), **query)
    known = as_model(net)
    return InTensors(bracket, "lipschitz" in query or (known is not None and known.has_one_output))


def check_point(certificate: Any, net: Any, x: Tensor, y: float) -> bool:
    """Whether the checker, from the weights of the network alone, verifies what is claimed of one point.

    `certificate`: what a bracket holds for the point, one for each target, or a single one of a network with one output; `y`: -1 or +1
    there, the position of the class for a network with many scores.
    """
    if isinstance(net, BinaryReadout):
        every = list(certificate.values()) if isinstance(certificate, dict) else [certificate]
        return bool(every) and all(check_readout(one, net, x, y) for one in every)
    model = read_model(net)
    label = int(y > 0) if model.has_one_output or not isinstance(certificate, dict) else int(y)
    of_targets = certificate if isinstance(certificate, dict) else {1 - label: certificate}
    proofs = [Proof(0, label, target, one) for target, one in of_targets.items()]
    norm = next((one.norm for one in of_targets.values()), 2.0)
    claimed = min((one.radius for one in of_targets.values()), default=0.0)
    points = x.detach().double().numpy()[None]
    found = verified_radii(model.checkable(), points, np.array([label]), proofs, norm)
    return claimed > 0 and bool(found[0] >= claimed)
