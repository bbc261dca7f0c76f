import torch

from featureprism.networks import ReLU, TwoLogits, gaussian_start


def test_two_logits_decide_as_the_sign_does(generator):
    net = gaussian_start(6, 4, 1.0, ReLU(), generator=generator)
    x = torch.randn(50, 4, generator=generator).double()
    logits = TwoLogits(net)(x)
    torch.testing.assert_close(logits[:, 1] - logits[:, 0], net(x))
    assert torch.equal(logits.argmax(dim=1) == 1, net(x) > 0)
