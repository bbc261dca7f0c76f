"""Brackets as the tests want them: limited in branches, so that a busy machine gives the same answer, and as tensors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.brackets import RadiusBracket
from featureprism.verify import Budget, robust_radius
from featureprism.verify.model import ONE_OUTPUT


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
    return InTensors(bracket, isinstance(net, ONE_OUTPUT) or "lipschitz" in query)
