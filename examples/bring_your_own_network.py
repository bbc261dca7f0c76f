"""
A certificate you can check yourself
====================================

Bracket the robust radius of your own two-layer network, and check a certificate yourself.
"""

import torch

import featureprism as fp

net = fp.TwoLayerNet(  # from plain tensors: W (h, d), a (h,), b (h,)
    torch.tensor([[1.0, 0.5], [-0.3, 1.0], [0.8, -1.0]]).double(),
    torch.tensor([1.0, -1.2, 0.7]).double(),
    torch.tensor([0.1, 0.0, -0.2]).double(),
    activation=fp.ReLU(),
)
x = torch.tensor([[1.0, 0.2], [0.5, 2.0], [2.0, -1.0]]).double()
y = torch.where(net(x) > 0, 1.0, -1.0).double()

bracket = fp.robust_radius(net, x, y, gap=0.001)
for i in range(len(x)):
    granted = fp.check(bracket.certificates[i], net, x[i], float(y[i]))
    print(
        f"point {i}: radius between {bracket.certified[i]:.5f} and {bracket.attacked[i]:.5f}"
        f" ({bracket.method[i]}, checker agrees: {granted})"
    )
# the same from files: featureprism radius net.npz data.npz; other tools want two logits: featureprism.networks.TwoLogits
