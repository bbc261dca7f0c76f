"""Image attacks against linear classifiers, whose worst perturbation is known."""

from math import inf

import pytest
import torch
from torch import nn

from featureprism.probes.image_attacks import (
    SHORT,
    ImageAttack,
    decided,
    group_loss,
    label_loss,
    margin_loss,
    perturb,
    pgd_adversary,
    survivors,
    vanishing_share,
    wilson,
)


class Linear(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return x.flatten(1) @ self.weight.T


@pytest.fixture
def problem(generator):
    weight = torch.randn(3, 16, generator=generator).double()
    x = 0.5 + 0.05 * torch.rand(5, 1, 4, 4, generator=generator).double()  # far from the edges of the box
    return Linear(weight), x, torch.tensor([0, 1, 2, 0, 1])


@pytest.mark.parametrize("norm", [2, inf])
def test_two_classes_are_moved_along_the_difference_of_their_weights(norm, problem, generator):
    model, x, y = problem
    model = Linear(model.weight.detach()[:2])
    y = y % 2
    delta = perturb(model, x, y, ImageAttack(norm, 0.1, steps=60, restarts=2), generator=generator).flatten(1)
    gap = model.weight.detach()[1 - y] - model.weight.detach()[y]
    best = 0.1 * (gap / gap.norm(dim=1, keepdim=True) if norm == 2 else gap.sign())
    torch.testing.assert_close((delta * gap).sum(dim=1), (best * gap).sum(dim=1), rtol=5e-2, atol=1e-6)
    sizes = torch.linalg.vector_norm(delta, ord=norm, dim=1)
    assert float(sizes.max()) <= 0.1 * (1 + 1e-6)


def test_pictures_stay_pictures(problem, generator):
    model, x, y = problem
    bright = x.clone()
    bright[:, :, :2] = 1.0
    moved = bright + perturb(model, bright, y, ImageAttack(inf, 0.3), generator=generator)
    assert float(moved.min()) >= 0
    assert float(moved.max()) <= 1


def test_noise_only_blurs_a_linear_model(problem, generator):
    """Averaged over copies, the gradient of a linear model's loss still points the same way up to sampling."""
    model, x, y = problem
    plain = perturb(model, x, y, ImageAttack(2, 0.1), generator=generator).flatten(1)
    noisy = perturb(
        model, x, y, ImageAttack(2, 0.1, steps=40, noise=0.05, samples=8), generator=generator
    ).flatten(1)
    assert float(torch.nn.functional.cosine_similarity(plain, noisy).min()) > 0.8


def test_the_group_loss_is_that_of_the_merged_decision(problem):
    model, x, _ = problem
    groups = torch.tensor([0, 0, 1])
    labels = torch.tensor([0, 1, 1, 0, 0])
    p = torch.softmax(model(x), dim=1)
    merged = torch.stack([p[:, 0] + p[:, 1], p[:, 2]], dim=1)
    torch.testing.assert_close(group_loss(groups)(model(x), labels), -merged.log()[range(5), labels])
    assert decided(model, x, groups).tolist() == merged.argmax(dim=1).tolist()
    torch.testing.assert_close(group_loss(torch.arange(3))(model(x), labels), label_loss(model(x), labels))


def test_survivors_fall_with_the_radius_and_with_more_losses(problem, generator):
    model, x, _ = problem
    groups = torch.tensor([0, 0, 1])
    y = decided(model, x, groups)
    counts = [
        int(survivors(model, x, y, ImageAttack(2, r, steps=20), groups=groups, generator=generator).sum())
        for r in (0.0, 0.05, 3.0)
    ]
    assert counts[0] == 5
    assert counts == sorted(counts, reverse=True)
    assert counts[2] < 5


def test_a_fragile_network_costs_a_few_passes(problem, generator):
    """Where a short run fells every image, the full ones are not made: its steps, a last look, and two decisions."""
    model, x, _ = problem
    y, seen = decided(model, x), []
    handle = model.register_forward_hook(lambda *_: seen.append(1))
    attack = ImageAttack(2, 5.0, steps=40, restarts=3)
    assert not survivors(model, x, y, attack, losses=(margin_loss, label_loss), generator=generator).any()
    handle.remove()
    assert len(seen) == SHORT + 1 + 2


def test_the_adversary_restores_training_mode_and_obeys_its_strength(problem, generator):
    model, x, y = problem
    adversary = pgd_adversary(ImageAttack(2, 0.2, steps=3))
    model.train()
    images, labels = adversary(model, x, y, 0.5, generator)
    half = images - x
    assert model.training
    assert torch.equal(labels, y)
    assert 0 < float(half.flatten(1).norm(dim=1).max()) <= 0.1 + 1e-9
    assert torch.equal(adversary(model, x, y, 0.0, generator)[0], x)


def test_smoothadv_trains_on_every_noisy_copy(problem, generator):
    model, x, y = problem
    images, labels = pgd_adversary(ImageAttack(2, 0.0, steps=2, noise=0.1, samples=3))(
        model, x, y, 1.0, generator
    )
    assert torch.equal(labels, y.repeat(3))
    noise = images.reshape(3, *x.shape) - x
    assert float(noise.std()) == pytest.approx(0.1, rel=0.1)


def test_wilson_against_a_known_value():
    """50 of 100: 0.404 to 0.596 (Wilson 1927, as in any table)."""
    low, high = wilson(50, 100)
    assert (low, high) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_impossible_attacks_are_refused():
    with pytest.raises(ValueError, match="norm"):
        ImageAttack(1, 0.1)
    with pytest.raises(ValueError, match="steps"):
        ImageAttack(2, 0.1, steps=0)


def test_losses_and_vanishing_gradients():
    logits = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 1.0]])
    assert margin_loss(logits, torch.tensor([0, 2])).tolist() == [-1.0, 4.0]
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.stack([torch.ones(1, 2, 2), -torch.ones(1, 2, 2)])  # the ReLU is shut on the second
    assert vanishing_share(flat, x, torch.tensor([0, 1])) == 0.5


def test_no_images_have_no_perturbations(problem, generator):
    model, x, y = problem
    delta = perturb(model, x[:0], y[:0], ImageAttack(2, 1.0, steps=2), generator=generator)
    assert delta.shape == x[:0].shape
