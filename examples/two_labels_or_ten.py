"""
Two labels or ten
=================

The same data, the same network size, the same descent: ten labels instead of two, and the radius doubles.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import featureprism as fp
from featureprism.networks import BinaryReadout, grouped_start, voting_start
from featureprism.training import first_layer_descent

dim, k = 1024, 10
clusters = fp.data.orthogonal_clusters(dim, 5, 5, 1.0, generator=fp.generator_for("centres", 0))
train = fp.data.sample(clusters, 500, generator=fp.generator_for("train", 0))
test = fp.data.sample(clusters, 30, generator=fp.generator_for("test", 0))

two = voting_start(5, dim, 1e-5, fp.networks.ReLU(), generator=fp.generator_for("two", 0))
two = first_layer_descent(two, train.x, train.y, step_size=3e-3, steps=200).last
ten = grouped_start(k, 1, dim, 1e-5, generator=fp.generator_for("ten", 0))
ten = first_layer_descent(ten, train.x, train.cluster, step_size=3e-3, steps=200).last

radii = np.linspace(0, 0.8, 100)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, net in (("two labels", two), ("ten labels", BinaryReadout(ten, clusters.labels))):
    bracket = fp.robust_radius(net, test.x, test.y, gap=0.03, budget=fp.Budget(branches=30))
    low, high = (radius / math.sqrt(dim) for radius in bracket.half_radius)
    print(f"{name}: 50 % radius between {low:.3f} and {high:.3f} √d")
    proven, attacked = bracket.accuracy(radii * math.sqrt(dim))
    (line,) = axes.plot(radii, attacked, label=f"{name}: from proven to attacked")
    axes.fill_between(radii, proven, attacked, alpha=0.3, color=line.get_color())
print(
    f"averaging breaks at 1/√k = {1 / math.sqrt(k):.3f}, nothing holds beyond 1/√2 = {1 / math.sqrt(2):.3f}"
)
axes.axvline(1 / math.sqrt(k), color="0.5", linestyle=":")
axes.axvline(1 / math.sqrt(2), color="0.5", linestyle=":")
axes.set(xlabel="radius ÷ √d", ylabel="robust accuracy")
axes.legend()
plt.show()

# %%
# The truth lies in the bands; where brackets close, a band is a line. The dotted lines are 1/√k and 1/√2.
