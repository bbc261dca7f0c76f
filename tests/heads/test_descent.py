"""The closed gradient of a head against autograd."""

import torch

from featureprism.heads.descent import Learned, Neurons, Recipe, levels, loss_slopes, mean_loss, train


def loss_by_autograd(W, x, subclass, neurons, recipe):
    norms = W.norm(dim=1)
    contributions = torch.relu(x @ W.T / norms) ** recipe.p * norms
    entropy = torch.nn.functional.cross_entropy
    fine = contributions @ torch.nn.functional.one_hot(neurons.subclass).float()
    coarse = contributions @ torch.nn.functional.one_hot(neurons.owner).float()
    beta = recipe.fine_weight
    return (1 - beta) * entropy(coarse, neurons.parent[subclass]) + beta * entropy(fine, subclass)


def setting(generator):
    neurons = Neurons(torch.tensor([0, 0, 1, 2, 3, 3]), torch.tensor([0, 0, 1, 2]), 3)
    W, x = torch.randn(6, 4, generator=generator), torch.randn(30, 4, generator=generator)
    return neurons, W, x, torch.randint(4, (30,), generator=generator)


def test_the_slopes_are_those_of_autograd(generator):
    neurons, W, x, subclass = setting(generator)
    for fine_weight in (0.0, 0.3, 1.0):
        recipe = Recipe(3.0, 1, 30, 0.1, 0.0, fine_weight)
        norms = W.norm(dim=1)
        contributions = (torch.relu(x @ (W / norms.unsqueeze(1)).T) ** 3).requires_grad_()
        phi, G = loss_slopes(
            x @ (W / norms.unsqueeze(1)).T, norms, 3.0, torch.arange(30), levels(neurons, recipe, subclass)
        )
        torch.testing.assert_close(phi, contributions.detach())
        entropy, scores = torch.nn.functional.cross_entropy, contributions * norms
        fine = scores @ torch.nn.functional.one_hot(neurons.subclass).float()
        coarse = scores @ torch.nn.functional.one_hot(neurons.owner).float()
        loss = (1 - fine_weight) * entropy(coarse, neurons.parent[subclass])
        loss = loss + fine_weight * entropy(fine, subclass)
        (wanted,) = torch.autograd.grad(30 * loss, contributions)
        torch.testing.assert_close(G * norms, wanted, rtol=1e-4, atol=1e-6)


def test_training_takes_the_steps_of_adam_on_the_loss(generator):
    neurons, W, x, subclass = setting(generator)
    recipe = Recipe(3.0, 4, 30, 0.1, 0.01, 0.3)  # one batch holds everything: the order does not matter
    found = train(W, neurons, Learned(x, subclass), recipe, generator=generator).W
    twin = W.clone().requires_grad_()
    adam = torch.optim.Adam([twin], lr=0.1, weight_decay=0.01)
    for step in range(4):
        adam.param_groups[0]["lr"] = 0.1 * (1 - step / 4)
        adam.zero_grad()
        loss_by_autograd(twin, x, subclass, neurons, recipe).backward()
        adam.step()
    torch.testing.assert_close(found, twin.detach(), rtol=1e-3, atol=1e-4)


def test_the_loss_that_is_watched_is_the_one_that_is_lowered(generator):
    neurons, W, x, subclass = setting(generator)
    recipe = Recipe(3.0, 1, 30, 0.1, 0.02, 0.3)
    wanted = float(loss_by_autograd(W, x, subclass, neurons, recipe)) + 0.01 * float(W.square().sum())
    assert abs(mean_loss(W, neurons, Learned(x, subclass), recipe) - wanted) < 1e-5
    index = torch.arange(30).repeat_interleave(torch.arange(30) % 3)  # a point of weight 2 is two points
    copies = mean_loss(W, neurons, Learned(x, subclass).rows(index), recipe)
    weighted = mean_loss(W, neurons, Learned(x, subclass, (torch.arange(30) % 3).float()), recipe)
    assert abs(copies - weighted) < 1e-5


def test_a_weight_of_two_pulls_like_two_points(generator):
    neurons, W, x, subclass = setting(generator)
    recipe = Recipe(3.0, 3, 60, 0.1, 0.0, 0.3)
    weight = torch.arange(30).double() % 3
    index = torch.arange(30).repeat_interleave(weight.long())
    W, x = W.double(), x.double()
    copies = train(W, neurons, Learned(x[index], subclass[index]), recipe, generator=generator).W
    weighted = Learned(x, subclass, weight / weight.mean())
    torch.testing.assert_close(train(W, neurons, weighted, recipe, generator=generator).W, copies)
