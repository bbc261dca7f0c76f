import sys
from math import inf
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from featureprism.probes.auto_attack import auto_attack_survivors, has_auto_attack


class Halves(nn.Module):
    """Class 1 where the mean is positive: pixels live in [-1, 1]."""

    def forward(self, x):
        mean = x.flatten(1).mean(dim=1)
        return torch.stack([-mean, mean], dim=1)


class Fake:
    """Stands for AutoAttack: moves every pixel of [0, 1] down by eps."""

    def __init__(self, forward, norm, eps, seed, device):
        self.eps, self.norm = eps, norm

    def run_standard_evaluation(self, x, y, batch_size):
        assert float(x.min()) >= 0
        assert float(x.max()) <= 1
        return (x - self.eps).clamp(0, 1), y


def test_the_box_is_mapped_and_eps_with_it(monkeypatch):
    """A point at 0.3 of [-1, 1] survives a step of 0.2 there, one at 0.1 does not."""
    monkeypatch.setitem(sys.modules, "pyautoattack", SimpleNamespace(AutoAttack=Fake))
    x, y = torch.tensor([0.3, 0.1]).reshape(2, 1, 1, 1), torch.tensor([1, 1])
    kept = auto_attack_survivors(Halves(), x, y, inf, 0.2, box=(-1.0, 1.0))
    assert kept.tolist() == [True, False]
    with pytest.raises(ValueError, match="outside the box"):
        auto_attack_survivors(Halves(), x - 1, y, inf, 0.2)
    with pytest.raises(ValueError, match="norm"):
        auto_attack_survivors(Halves(), x, y, 1, 0.2)


def test_without_it_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    assert not has_auto_attack()
    with pytest.raises(ValueError, match="pip install"):
        auto_attack_survivors(Halves(), torch.zeros(1, 1, 1, 1), torch.tensor([1]), inf, 0.1)
