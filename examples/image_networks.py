"""
Image networks, plain and adversarial
=====================================

Train a small ResNet on digits plainly and against an adversary, and see where each of them breaks.

Run: python examples/image_networks.py. Another data set: load_images("mnist") after `featureprism fetch mnist`.
"""

import matplotlib.pyplot as plt

from featureprism import generator_for
from featureprism.data.images import load_images
from featureprism.networks.deep import image_network
from featureprism.probes.image_attacks import ImageAttack, pgd_adversary, survivors
from featureprism.training.images import Recipe, train_images

digits = load_images("digits")
x, y = digits.x_train[:400], digits.y_train[:400]
attack, radii = ImageAttack(norm=2, eps=0.8, steps=3), (0.0, 0.4, 0.8)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, adversary in (("clean", None), ("adversarial", pgd_adversary(attack))):
    net = image_network("resnet-10", (1, 8, 8), 10, factor=0.125, generator=generator_for("start", 0))
    recipe = Recipe(epochs=5, batch_size=32, step_size=0.05, warm_up=1)
    train_images(net, x, y, recipe, seed=0, adversary=adversary)
    kept = [
        survivors(
            net,
            digits.x_test[:100],
            digits.y_test[:100],
            ImageAttack(2, eps, steps=10),
            generator=generator_for("test", 0),
        )
        for eps in radii
    ]
    accuracies = [round(float(k.double().mean()), 2) for k in kept]
    print(name, accuracies)
    axes.plot(radii, accuracies, "o-", label=f"{name} training")
axes.set(xlabel="radius", ylabel="accuracy under attack", ylim=(0, 1.03))
axes.legend()
plt.show()

# %%
# Accuracy on 100 test digits under an ℓ2 attack of ten steps.
