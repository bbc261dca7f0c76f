"""The proof helps the attack: thin cones that rays miss, and witnesses that only a leaf knows."""

import torch
from asking import asked

from featureprism.attacks import minimal_radius
from featureprism.attacks.boundary import flips_near
from featureprism.models.scores import ScoreNet
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.verify.attack import default_reach, default_starts


def network(seed: int, point: int) -> tuple[TwoLayerNet, torch.Tensor, torch.Tensor]:
    """Five dimensions, twelve ReLUs with biases, and one of thirty points."""
    generator = torch.Generator().manual_seed(seed)
    W, a, b = (torch.randn(*shape, generator=generator).double() for shape in ((12, 5), (12,), (12,)))
    net = TwoLayerNet(W, a / 12, 0.3 * b, activation=ReLU())
    x = torch.randn(30, 5, generator=generator).double()[[point]]
    return net, x, torch.sign(net(x)).detach()


@torch.no_grad()
def test_flips_near_finds_a_cone_beside_the_ray() -> None:
    # y f = 1 - δ₁ + 5 |δ₂ - δ₁ + 1|: its nearest flip is (1, 0), and no longer δ on that ray flips
    W = torch.tensor([[-1.0, 1.0], [1.0, -1.0], [-1.0, 0.0], [0.0, 0.0]]).double()
    a, b = torch.tensor([5.0, 5.0, 1.0, -10.0]).double(), torch.tensor([1.0, -1.0, 11.0, 1.0]).double()
    net, x, y = TwoLayerNet(W, a, b, activation=ReLU()), torch.zeros(1, 2).double(), torch.ones(1).double()
    nearest = torch.tensor([[1.0, 0.0]]).double()
    assert bool((net(torch.linspace(1.001, 5, 50).double().unsqueeze(1) * nearest) > 0).all())
    delta, length = flips_near(net, x, y, nearest)
    assert float(net(x + delta)) <= 0
    assert 1 - 1e-9 <= float(length) <= 1 + 1e-4


@torch.no_grad()
def test_leaves_shorten_a_witness_that_the_attack_leaves_too_long() -> None:
    net, x, y = network(0, 26)
    plain = minimal_radius(net, x, y, starts=default_starts(net, 5), upper=default_reach(net, x, 2))
    bracket, again = (asked(net, x, y, gap=0.005, branches=40) for _ in range(2))
    assert bracket.witness is not None
    assert float(plain.radius) > 1.005 * float(bracket.attacked)
    assert float(bracket.certified) <= float(bracket.attacked) <= float(bracket.certified) * 1.005
    assert float(y * net(x + bracket.witness)) <= 0
    assert float(bracket.witness.norm()) <= float(bracket.attacked) * (1 + 1e-12)
    assert torch.equal(bracket.attacked, again.attacked)


@torch.no_grad()
def test_leaves_help_pairs_of_classes_and_one_radius_too() -> None:
    net, x, y = network(0, 26)
    votes = torch.stack([torch.zeros_like(net.a), y * net.a], dim=1)
    scores = ScoreNet(net.W, votes, net.b, activation=ReLU())
    own = torch.ones(1, dtype=torch.long)
    bracket = asked(scores, x, own, gap=0.005, branches=40)
    assert float(bracket.certified) <= float(bracket.attacked) <= float(bracket.certified) * 1.005
    at = asked(net, x, y, eps=0.64, branches=40)
    assert float(at.attacked) <= 0.64  # the plain attack finds 0.6415
    assert at.witness is not None
    assert float(y * net(x + at.witness)) <= 0
