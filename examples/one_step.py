"""
One step makes features
=======================

One step of descent on XOR data turns random features into useful ones, whatever the dimension and in spite of flipped labels.
"""

import math

import matplotlib.pyplot as plt

import featureprism as fp
from featureprism.data import LabelNoise
from featureprism.networks import unit_votes_start
from featureprism.probes.amplification import correlations, leaning_neurons
from featureprism.training import first_layer_descent

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for dim in (50, 500):
    clusters = fp.data.xor_clusters(dim, 1 / (16 * math.sqrt(dim)), generator=fp.generator_for("centres", 0))
    train = fp.data.sample_xor(
        clusters, 1000, LabelNoise("constant", 0.1), generator=fp.generator_for("train", 0)
    )
    net = unit_votes_start(400, dim, 1e-5, fp.networks.ReLU(), generator=fp.generator_for("start", 0))
    run = first_layer_descent(net, train.data.x, train.data.y, step_size=0.125, steps=3, record=range(3))
    leaning = leaning_neurons(net.W.detach(), net.a.detach(), clusters.centres, 10.0)
    story = [
        float(correlations(step.W.detach(), clusters.centres, leaning).median()) for step in run.snapshots
    ]
    told = ", ".join(f"{c:.2f}" for c in story)
    print(f"d = {dim}: correlation of neurons with their cluster at steps 0 to 3: {told}")
    axes.plot(story, "o-", label=f"d = {dim}")
axes.set(xlabel="step", ylabel="correlation with the cluster", xticks=range(4), ylim=(0, 1.03))
axes.legend()
plt.show()

# %%
# At the start the correlation is of order 1/√d; after one step it no longer depends on d.
