import math

import pytest
import torch
from torch import nn

from featureprism.probes.image_attacks import ImageAttack, label_loss
from featureprism.probes.image_radii import broken_at, half_radius, robust_curve
from featureprism.seeds import generator_for


def test_the_crossing_of_a_known_curve():
    assert half_radius([1.0, 2.0], [1.0, 0.75, 0.25]) == pytest.approx(1.5)
    assert half_radius([1.0], [0.4, 0.1]) == 0.0
    assert math.isnan(half_radius([1.0], [1.0, 0.8]))
    radii = [0.1 * i for i in range(1, 21)]
    straight = [1 - r / 2 for r in (0.0, *radii)]
    assert half_radius(radii, straight) == pytest.approx(1.0)


def test_curves_count_what_still_stands():
    broken = torch.tensor([0.0, 1.0, 2.0, math.inf])
    assert robust_curve(broken, [1.0, 2.0]) == [0.75, 0.5, 0.25]


def test_a_linear_classifier_breaks_at_its_margin():
    """Logits ±⟨w, x⟩ + b with ‖w‖ = 1 at distances 0.15 and 0.45 from the boundary, and one on the wrong side."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[0.5] * 4, [-0.5] * 4]))
        net[1].bias.copy_(torch.tensor([-1.0, 1.0]))  # boundary: Σx/2 = 1
    along = torch.tensor([0.15, 0.45, -0.2])
    x = (0.5 + along / 2).reshape(3, 1, 1, 1).expand(3, 1, 2, 2).contiguous()
    y = torch.zeros(3, dtype=torch.long)
    found = broken_at(
        net,
        x,
        y,
        [0.1, 0.2, 0.3, 0.4, 0.5],
        ImageAttack(2, 0.5, 10),
        groups=torch.arange(2),
        aim=y,
        loss=label_loss,
        generator=generator_for("attack", 0),
    )
    torch.testing.assert_close(found, torch.tensor([0.2, 0.5, 0.0]))
