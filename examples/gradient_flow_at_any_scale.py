"""
Gradient flow from 1e-80
========================

Gradient flow from an initialisation of 1e-80: the scale Theorem 1 of gmm-flow asks for.
"""

from math import log

import matplotlib.pyplot as plt

import featureprism as fp
from featureprism.networks import PolynomialClassifier, balanced, gaussian_shape, nudge_to_own_class
from featureprism.probes import alignment, sphere_distance

ALPHA, P = 0.1, 3.0
clusters = fp.data.orthonormal_clusters(200, 3, 3, ALPHA, generator=fp.generator_for("centres", 0))
data = fp.data.sample_balanced(clusters, 100, generator=fp.generator_for("train", 0))

signs = clusters.labels.repeat(3)  # three neurons per cluster
shape = gaussian_shape(len(signs), 200, generator=fp.generator_for("shape", 0))
shape = nudge_to_own_class(
    shape, signs, clusters.mu, clusters.labels, 0.4, generator=fp.generator_for("nudge", 0)
)
loss = fp.training.Loss("square", "per-cluster", num_clusters=6)
F = PolynomialClassifier(clusters.mu, clusters.labels, P)

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for epsilon in (1e-7, 1e-80):
    start = balanced(shape, signs, log(epsilon))
    times = [0.2 * i for i in range(int(-5 * log(epsilon)) + 25)]
    run = fp.training.balanced_flow(start, data.x, data.y, p=P, loss=loss, t_end=times[-1], record=times)
    net = run.last.to_net(fp.networks.PolynomialReLU(P))
    aligned = alignment(run.last.directions, clusters.mu).median()
    distance = sphere_distance(net, F).value
    print(f"ε = {epsilon:g}: {run.work} gradients, alignment {aligned:.5f}, sup|f - F| = {distance:.4f}")
    axes.plot(
        run.times, [(2 * state.log_norms).exp().sum() for state in run.snapshots], label=f"ε = {epsilon:g}"
    )
axes.set(xlabel="time", ylabel="mass Σ‖w‖² of all neurons")
axes.legend()
plt.show()

# %%
# Neurons have turned to their centres long before anything grows; then Σ‖w‖² rises, after a time ∝ log(1/ε).
