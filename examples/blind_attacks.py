"""
An attack that sees nothing
===========================

Plain PGD calls a pReLU classifier robust at a radius where no classifier can be; structured starts do not.
"""

import matplotlib.pyplot as plt
import torch

import featureprism as fp
from featureprism.networks import PolynomialClassifier

clusters = fp.data.orthonormal_clusters(500, 12, 8, 0.1, generator=fp.generator_for("centres", 0))
points = fp.data.sample(clusters, 50, generator=fp.generator_for("test", 0))
F = PolynomialClassifier(clusters.mu, clusters.labels, 3.0)
starts = fp.attacks.structured_starts(F, clusters.mu, clusters.labels)
exact = F.exact_radius(points.x, points.y)
radii = torch.tensor([0.0, 0.3, 0.6, 0.65, 0.68, 0.69, 0.7, 0.71, 0.72, 0.75, 0.9]).double()
survive = {"plain PGD": [], "PGD from structured starts": []}
for eps in radii.tolist():
    blind = fp.attacks.pgd(F, points.x, points.y, fp.geometry.LpBall(2, eps), steps=100)
    seeing = fp.attacks.pgd(F, points.x, points.y, fp.geometry.LpBall(2, eps), starts=starts)
    for shares, attack in zip(survive.values(), (blind, seeing), strict=True):
        shares.append(1 - float(attack.flipped.double().mean()))

for (
    name,
    shares,
) in survive.items():  # beyond √2/2 Proposition 1 of gmm-flow says that every classifier breaks
    print(f"{name} at 0.75: {shares[-2]:.0%} of the points survive")
print(f"exact radius: {exact.min():.3f} to {exact.max():.3f}; √2/2 = {0.5**0.5:.3f}")

# %%
# What each attack would report as robust accuracy, and the truth.
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, shares in survive.items():
    axes.plot(radii, shares, "o-", label=name)
axes.plot(radii, [float((exact > eps).double().mean()) for eps in radii], "k:", label="exact")
axes.set(xlabel="radius", ylabel="points that survive")
axes.legend(loc="lower left")
plt.show()
