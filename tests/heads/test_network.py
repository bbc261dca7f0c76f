import torch

from featureprism.heads.network import HeadNet, MergedHead
from featureprism.seeds import generator_for


def merged_head() -> MergedHead:
    random = generator_for("head", 0)
    W, b = torch.randn(20, 6, generator=random).double(), torch.randn(20, generator=random).double()
    net = HeadNet(
        W, b, torch.rand(20, generator=random).double(), torch.arange(10).repeat_interleave(2), 10, 1.0
    )
    return MergedHead(net, torch.tensor([1.0] * 5 + [-1.0] * 5).double())


def test_the_merged_decision_is_that_of_summed_probabilities():
    head = merged_head()
    x = torch.randn(200, 6, generator=generator_for("x", 0)).double()
    p = head.net(x).softmax(dim=1)
    torch.testing.assert_close(head(x), (p[:, :5].sum(dim=1) / p[:, 5:].sum(dim=1)).log())


def test_no_gradient_of_the_merged_head_exceeds_its_lipschitz_bound():
    head = merged_head()
    x = (3 * torch.randn(500, 6, generator=generator_for("x", 0)).double()).requires_grad_(True)
    (slope,) = torch.autograd.grad(head(x).sum(), x)
    assert float(slope.norm(dim=1).max()) <= head.lipschitz()
