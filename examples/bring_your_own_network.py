"""
A certificate you can check yourself
====================================

Bracket the robust radius of your own two-layer network, and check a certificate yourself.
"""

import matplotlib.pyplot as plt
import torch

import featureprism as fp

net = fp.networks.TwoLayerNet(  # from plain tensors: W (h, d), a (h,), b (h,)
    torch.tensor([[1.0, 0.5], [-0.3, 1.0], [0.8, -1.0]]).double(),
    torch.tensor([1.0, -1.2, 0.7]).double(),
    torch.tensor([0.1, 0.0, -0.2]).double(),
    activation=fp.networks.ReLU(),
)
x = torch.tensor([[1.0, 0.2], [0.5, 2.0], [2.0, -1.0]]).double()
y = torch.where(net(x) > 0, 1.0, -1.0).double()

bracket = fp.robust_radius(net, x, y, gap=0.001)
for i in range(len(x)):
    granted = bool(fp.check(bracket, net, x, y))
    print(
        f"point {i}: radius between {bracket.certified[i]:.5f} and {bracket.attacked[i]:.5f}"
        f" ({bracket.method[i]}, checker agrees: {granted})"
    )

# %%
# Inside a circle nothing flips, which is proven. The arrows are witnesses: the two ends are within a thousandth of each other.
s = torch.linspace(-3.5, 4.5, 201).double()
plane = torch.stack(torch.meshgrid(s, s, indexing="xy"), dim=-1).reshape(-1, 2)
figure, axes = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
axes.contourf(s, s, net(plane).detach().reshape(201, 201) > 0, levels=1, colors=["#d6e6f2", "#fbe3d0"])
assert bracket.witness is not None
angle = torch.linspace(0, 2 * torch.pi, 100).double()
for centre, radius in zip(x, bracket.certified, strict=True):
    axes.plot(centre[0] + radius * angle.cos(), centre[1] + radius * angle.sin(), "k")
axes.quiver(*x.T, *bracket.witness.T, angles="xy", scale_units="xy", scale=1, width=0.005)
axes.plot(*x.T, "ko")
axes.set(aspect="equal", xlabel="first coordinate", ylabel="second coordinate")
plt.show()

# %%
# The same from files: featureprism radius net.npz data.npz; other tools want two logits: featureprism.networks.TwoLogits
