"""The lazy twin and a third layer."""

from dataclasses import replace

import torch

from featureprism.papers.feature_amplification.baselines import BASELINES, ThreeLayers
from featureprism.papers.feature_amplification.lazy import lazy_outputs
from featureprism.papers.feature_amplification.setting import NoisyXor, problem, start

TINY = {
    BASELINES.id: [
        replace(s, dim=s.dim // 10, points=80, width=20, test_points=100, steps=2)
        for s in BASELINES.settings("quick")
    ]
}


def test_lazy_training_is_descent_on_the_linearised_network():
    s = NoisyXor.on_edge(16.0, dim=15, points=40, width=10, sigma=0.5, test_points=20)
    data, net = problem(s, 0), start(s, 0)
    x, y, fresh = data.train.data.x, data.train.data.y, data.test.data.x
    W0, a = net.W.detach(), net.a.detach()
    W = W0.clone()

    def linearised(points, W):
        return ((points @ W0.T > 0) * (points @ W.T)) @ a  # the network is its own tangent at W⁰

    for _ in range(5):
        moving = W.clone().requires_grad_()
        torch.nn.functional.softplus(-y * linearised(x, moving)).mean().backward()
        W = W - 0.7 * moving.grad
    torch.testing.assert_close(
        lazy_outputs(net, data.train.data, fresh, step_size=0.7, steps=5), linearised(fresh, W)
    )


def test_a_step_of_three_layers_is_the_gradient():
    s = NoisyXor.on_edge(16.0, dim=6, points=30, width=8, start=0.3)
    data, net = problem(s, 0).train.data, ThreeLayers.random(s, 0)
    W = net.W.clone().requires_grad_()
    f = torch.relu(torch.relu(data.x @ W.T) @ net.V.T) @ net.a
    torch.testing.assert_close(net.outputs(data.x), f.detach())
    torch.nn.functional.softplus(-data.y * f).mean().backward()
    torch.testing.assert_close(net.stepped(data.x, data.y, 0.5).W, net.W - 0.5 * W.grad)
