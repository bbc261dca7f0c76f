"""Two labels against ten on images: Figure 3 (CIFAR-10)."""

from dataclasses import replace

import torch

from featureprism.data.images import ImageSet
from featureprism.lab.context import Context
from featureprism.papers.feature_averaging import images
from featureprism.papers.feature_averaging.figure_3_cifar import FIGURE_3_CIFAR

IMAGES = {
    "train_images": 256,
    "epochs": 8,
    "step_size": 0.05,
    "test_images": 12,
    "steps": 2,
    "radii": (0.5, 1.0, 4.0),
}
TINY = {FIGURE_3_CIFAR.id: [replace(FIGURE_3_CIFAR.settings("quick")[0], **IMAGES)]}


def test_networks_of_the_zoo_are_measured_on_cifar_alone(monkeypatch):
    monkeypatch.setattr(images, "load", lambda name: torch.nn.Linear(1, len(name)))
    s = replace(FIGURE_3_CIFAR.settings("quick")[0], zoo="resnet-10 0", epochs=0)
    x, y = torch.zeros(10, 3, 32, 32), torch.arange(10)
    for labels, outputs in ((images.TWO, 2), (images.TEN, 10)):
        kept = images.trained(labels, ImageSet(x, y, x, y, "cifar10.npz"), s, 0, Context())
        assert kept.out_features == len(f"resnet-10-{images.MEMBER[labels]}")
        own = images.trained(labels, ImageSet(x, y, x, y, "digits"), s, 0, Context())
        assert own.head.out_features == outputs
