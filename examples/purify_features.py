"""
Purification, before and after
==============================

Clean training leaves neurons that mix all features and fall to one small dense step; adversarial training purifies them.
"""

import math

import matplotlib.pyplot as plt

import featureprism as fp
from featureprism.attacks import FastGradient, along, fgm, strongest_of
from featureprism.data import dictionary, label_weights, two_level
from featureprism.networks import symmetric_start
from featureprism.probes.purification import weighted_purity
from featureprism.training import Phase, from_pool, train_symmetric

DIM, SPARSITY, RADIUS = 100, 10, 0.25

signs = label_weights("signs", DIM, generator=fp.generator_for("labels", 0))
features = dictionary("haar", DIM, generator=fp.generator_for("dictionary", 0))
coding = fp.data.SparseCoding(features, signs, two_level(DIM, SPARSITY, 0.7, 0.5), noise=0.3, margin=1.25)
train = fp.data.sample_sparse(coding, 6000, generator=fp.generator_for("train", 0))
test = fp.data.sample_sparse(coding, 500, generator=fp.generator_for("test", 0))

start_bias = 1.2 * math.sqrt(2 * math.log(DIM)) * 1e-3
net = symmetric_start(300, DIM, 1e-3, start_bias, 0.2 * start_bias, generator=fp.generator_for("start", 0))
draw = from_pool(train.x, train.y, 200, generator=fp.generator_for("batches", 0))
clean = Phase(
    steps=500,
    step_size=10.0,
    smoothing=0.2,
    step_per_bias=0.05 * DIM,
    bias_growth=0.16 / DIM,
    bias_cap=0.4 / math.sqrt(SPARSITY),
)
ball = fp.geometry.LpBall(2, RADIUS)
purify = Phase(steps=200, step_size=10.0, smoothing=0.2, perturb=FastGradient(ball))

attack = strongest_of(fp.attacks.pgd, fgm, along(coding.dense_direction))
figure, both = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for axes, (name, phases) in zip(
    both, {"clean": [clean], "clean, then adversarial": [clean, purify]}.items(), strict=True
):
    trained = train_symmetric(net, draw, phases, penalty=0.1 / DIM).last
    right = 1 - attack(trained, test.x.double(), test.y.double(), ball).flipped.double().mean()
    W = trained.W.detach()
    purity = weighted_purity(W, coding.M)
    print(f"{name}: purity {purity:.2f}, accuracy under attack at radius {RADIUS}: {right:.2f}")
    largest = W[W.norm(dim=1).argmax()]
    axes.stem((largest @ coding.M / largest.norm()).tolist(), basefmt=" ", markerfmt=" ")
    axes.set(title=f"{name}: {right:.0%} survive", xlabel="feature")

# %%
# The largest neuron in the coordinates of the dictionary: one feature, and under it a dense mixture of all others. Adversarial
# training takes the mixture away and leaves the feature.
both[0].set_ylabel("cosine with the feature")
plt.show()
