"""
An attack that sees nothing
===========================

Plain PGD calls a pReLU classifier robust at a radius where no classifier can be; structured starts do not.
"""

import featureprism as fp
from featureprism.networks import PolynomialClassifier

clusters = fp.orthonormal_clusters(500, 12, 8, 0.1, generator=fp.generator_for("centres", 0))
points = fp.sample(clusters, 50, generator=fp.generator_for("test", 0))
F = PolynomialClassifier(clusters.mu, clusters.labels, 3.0)
ball = fp.LpBall(2, 0.75)  # beyond √2/2, where Proposition 1 of gmm-flow says every classifier breaks

blind = fp.pgd(F, points.x, points.y, ball, steps=100)
starts = fp.structured_starts(F, clusters.mu, clusters.labels)
seeing = fp.pgd(F, points.x, points.y, ball, starts=starts)
exact = F.exact_radius(points.x, points.y)

print(f"plain PGD at 0.75:      {1 - blind.flipped.double().mean():.0%} of the points survive")
print(f"structured PGD at 0.75: {1 - seeing.flipped.double().mean():.0%} of the points survive")
print(f"exact radius: {exact.min():.3f} to {exact.max():.3f}; √2/2 = {0.5**0.5:.3f}")
