"""
The max-margin point that training goes to
==========================================

Training goes to a max-margin KKT point that classifies perfectly and breaks at √(d/k); a robust network of the same size exists.
"""

import math

import matplotlib.pyplot as plt

import featureprism as fp
from featureprism.attacks import flip_rate, flipping_norm
from featureprism.networks import biased_start, robust_margin_classifier
from featureprism.probes import direction_cosines
from featureprism.training import margin_descent

dim, k = 500, 8
clusters = fp.data.orthogonal_clusters(dim, k // 2, k // 2, 0.5, generator=fp.generator_for("centres", 0))
train = fp.data.sample(clusters, 200, generator=fp.generator_for("train", 0))
test = fp.data.sample(clusters, 500, generator=fp.generator_for("test", 0))

start = biased_start(20, dim, 0.1, generator=fp.generator_for("start", 0))
trained = margin_descent(start, train.x, train.y, method="normalised", step_size=0.1, steps=200).last
exact = fp.training.max_margin_network(train.x, train.y).net
robust = robust_margin_classifier(clusters.mu, clusters.labels)

u = clusters.labels @ clusters.mu  # the direction of Theorem 4.2
norms = [0.1 * i for i in range(51)]
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, net in {"trained": trained, "exact KKT point": exact, "constructed": robust}.items():
    error = flip_rate(net, test.x, test.y, 0 * u)
    norm = flipping_norm(net, test.x, test.y, u) / math.sqrt(dim / k)
    print(f"{name:>16}: test error {error:.3f}, half of the points flip along u at {norm:.2f} √(d/k)")
    steps = [r * math.sqrt(dim / k) * u / u.norm() for r in norms]
    axes.plot(norms, [flip_rate(net, test.x, test.y, step) for step in steps], label=name)

audit = fp.probes.kkt_audit(trained, train.x, train.y, tolerance=1e-2)
cosines = direction_cosines(trained, exact).tolist()
print(
    f"trained network: stationarity {audit.stationarity:.4f}, cosines with the exact point {cosines[0]:.4f}, {cosines[1]:.4f}"
)
axes.set(xlabel="‖perturbation‖ ÷ √(d/k)", ylabel="test points flipped")
axes.legend()
plt.show()

# %%
# One perturbation for all points, along u: the trained network and the exact point break together, the constructed one much later.
