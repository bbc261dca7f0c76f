"""One step of adversarial training of an image network, against the same step with foolbox's PGD."""

from collections.abc import Iterator
from math import inf

import torch
from foolbox.attacks import LinfPGD
from foolbox.models.pytorch import PyTorchModel
from torch.nn.functional import cross_entropy

from benchmarks.timing import line, medians
from featureprism import generator_for
from featureprism.networks.deep import image_network
from featureprism.probes.image_attacks import ImageAttack, pgd_adversary
from featureprism.training.images import Recipe, train_images


def ratios() -> Iterator[str]:
    """ResNet-18, a quarter as wide, 64 images of 32 × 32, ℓ∞(8/255), 7 steps; and what the memory layout and bfloat16 do."""
    generator = generator_for("images", 0)
    x = torch.rand(64, 3, 32, 32, generator=generator)
    y = torch.randint(0, 10, (64,), generator=generator)
    attack = ImageAttack(inf, 8 / 255, steps=7)
    ours, theirs = (
        image_network("resnet-18", (3, 32, 32), 10, factor=0.25, generator=generator_for("start", 0))
        for _ in range(2)
    )
    recipe = Recipe(1, batch_size=64)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    peer = LinfPGD(abs_stepsize=2.5 * attack.eps / attack.steps, steps=attack.steps)

    def step() -> None:
        train_images(ours, x, y, recipe, seed=0, adversary=pgd_adversary(attack))

    def peer_step() -> None:
        theirs.eval()
        model = PyTorchModel(theirs, bounds=(0, 1), device="cpu")
        _, moved, _ = peer(model, x, y, epsilons=attack.eps)
        theirs.train()
        optimiser.zero_grad()
        cross_entropy(theirs(moved), y).backward()
        optimiser.step()

    mine, other = medians(step, peer_step, repeats=5)
    name = "adversarial training, ResNet-18 (¼ wide), ℓ∞ PGD of 7 steps, 64 images"
    yield line(f"{name}: foolbox ÷ ours ({64 / mine:.0f} images/s)", other / mine, 1.0, at_most=False)

    plain = image_network("resnet-18", (3, 32, 32), 10, factor=0.25, generator=generator_for("start", 0))
    last = image_network("resnet-18", (3, 32, 32), 10, factor=0.25, generator=generator_for("start", 0))
    last.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    x_last = x.contiguous(memory_format=torch.channels_last)

    def forward_backward(net: torch.nn.Module, images: torch.Tensor, half: bool) -> None:
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = cross_entropy(net(images).float(), y)
        loss.backward()

    usual, channels_last, half = medians(
        lambda: forward_backward(plain, x, False),
        lambda: forward_backward(last, x_last, False),
        lambda: forward_backward(last, x_last, True),
        repeats=3,
    )
    yield line("image network: usual layout ÷ channels last", usual / channels_last, 1.0, at_most=False)
    yield f"     image network: bfloat16 ÷ float32: {half / channels_last:.2f} (float32 is used)"
