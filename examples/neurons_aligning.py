"""
Neurons aligning under the flow
===============================

Gradient flow from a tiny start: first the neurons turn, each to the centre of one cluster, while nothing grows; then their masses
grow, one S-curve for each cluster.
"""

from math import log

import matplotlib.pyplot as plt
import torch

import featureprism as fp
from featureprism.networks import balanced, gaussian_shape, nudge_to_own_class

clusters = fp.data.orthonormal_clusters(100, 3, 3, 0.1, generator=fp.generator_for("centres", 0))
data = fp.data.sample_balanced(clusters, 50, generator=fp.generator_for("train", 0))
signs = clusters.labels.repeat(5)
shape = gaussian_shape(len(signs), 100, generator=fp.generator_for("shape", 0))
shape = nudge_to_own_class(
    shape, signs, clusters.mu, clusters.labels, 0.4, generator=fp.generator_for("nudge", 0)
)
times = [0.1 * i for i in range(220)]
run = fp.training.balanced_flow(
    balanced(shape, signs, log(1e-7)),
    data.x,
    data.y,
    p=3.0,
    loss=fp.training.Loss("square", "per-cluster", num_clusters=6),
    t_end=times[-1],
    record=times,
)
cosines = torch.stack([state.directions @ clusters.mu.T.to(state.directions) for state in run.snapshots])
best, owner = cosines.max(dim=2).values, cosines[-1].argmax(dim=1)
masses = torch.stack(
    [
        torch.stack([(2 * state.log_norms[owner == k]).exp().sum() for k in range(6)])
        for state in run.snapshots
    ]
)
print(f"aligned to {best[-1].min():.4f}, masses {masses[-1].min():.3f} to {masses[-1].max():.3f}")

# %%
# Left, the cosine of every neuron with its nearest centre; right, the mass Σ‖w‖² of every cluster.
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.plot(run.times, best, color="C0", alpha=0.4)
left.set(xlabel="time", ylabel="cosine with the nearest centre")
right.plot(run.times, masses)
right.set(xlabel="time", ylabel="mass of the cluster")
plt.show()
