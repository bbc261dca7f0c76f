import pytest
import torch
from sklearn.linear_model import Lasso
from torch import nn

from featureprism.networks.deep import conv_layers, image_network
from featureprism.probes.images import (
    energy_share,
    exciting_images,
    layer_cosines,
    output_at,
    principal_directions,
)
from featureprism.probes.sparse_images import conv_lasso, filters_of, span_error, sparsity_of, squared_norm


def test_cosines_of_scaled_and_turned_filters():
    first, second = nn.Conv2d(1, 2, 2), nn.Conv2d(1, 2, 2)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0]]).reshape(2, 1, 2, 2))
        second.weight.copy_(torch.tensor([[-3.0, 0, 0, 0], [1, 1, 0, 0]]).reshape(2, 1, 2, 2))
    torch.testing.assert_close(
        layer_cosines(first, second), torch.tensor([1.0, 0.5**0.5], dtype=torch.float64)
    )


def drawn(layer, generator):
    """The layer with weights of size ½ to 1 and random signs."""
    with torch.no_grad():
        size = 0.5 + 0.5 * torch.rand(layer.weight.shape, generator=generator)
        layer.weight.copy_(size * torch.randn(layer.weight.shape, generator=generator).sign())
    return layer


def test_the_most_exciting_picture_of_a_filter_is_the_filter(generator):
    """One 5 × 5 filter on 5 × 5 pictures, no decay: bright where the weight is positive, dark elsewhere."""
    layer = drawn(nn.Conv2d(1, 1, 5), generator)
    picture = exciting_images(
        layer, layer, torch.tensor([0]), (1, 5, 5), steps=300, step_size=0.2, decay=0.0, generator=generator
    )
    torch.testing.assert_close(picture[0, 0], (layer.weight[0, 0] > 0).float())


def test_a_layer_is_heard_before_the_network_ends(generator):
    first, second = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 1, 3)
    net, x = nn.Sequential(first, nn.ReLU(), second), torch.rand(2, 1, 8, 8, generator=generator)
    heard = []
    hook = second.register_forward_hook(lambda *_: heard.append(1))
    assert torch.equal(output_at(net, first, x), first(x))
    assert not heard
    assert torch.equal(output_at(net, second, x), net(x))  # the hook is gone again
    hook.remove()
    with pytest.raises(ValueError, match="does not use"):
        output_at(net, nn.ReLU(), x)


def test_energy_in_principal_directions(generator):
    scale = torch.tensor([10.0, 5.0] + [0.1] * 18, dtype=torch.float64)
    x = torch.randn(500, 20, generator=generator, dtype=torch.float64) * scale
    directions = principal_directions(x, share=0.1)
    assert directions.shape == (20, 2)
    shares = energy_share(torch.eye(20, dtype=torch.float64), directions)
    assert bool((shares[:2] > 0.99).all())
    assert float(shares[2:].max()) < 0.01
    assert float(energy_share(torch.zeros(1, 20), directions)) == 0


def test_the_convolutional_lasso_against_scikit_learn(generator):
    """The map as a matrix, column by column, and coordinate descent on it."""
    filters = filters_of(drawn(nn.Conv2d(2, 3, 3, stride=2, padding=1), generator), 6)
    x = torch.randn(2, 2, 6, 6, generator=generator)
    shape = filters.correlations(x).shape[1:]
    atoms = filters.images(torch.eye(shape.numel()).reshape(-1, *shape)).flatten(1)
    bound = squared_norm(filters, tuple(x.shape[1:]), generator=generator)
    codes = conv_lasso(filters, x, 0.1, bound=bound, steps=3000).flatten(1)
    lasso = Lasso(0.1 / atoms.shape[1], fit_intercept=False, max_iter=100_000, tol=1e-8)
    expected = lasso.fit(atoms.T.double().numpy(), x.flatten(1).T.double().numpy()).coef_
    torch.testing.assert_close(codes.double(), torch.from_numpy(expected), atol=2e-4, rtol=0)


def test_less_penalty_means_less_error_and_more_coefficients(generator):
    layer = conv_layers(image_network("alexnet", (3, 32, 32), 10, factor=0.1, generator=generator))[0]
    x = torch.rand(4, 3, 32, 32, generator=generator) - 0.5
    path = sparsity_of(filters_of(layer, 32), x, [0.05, 0.02, 0.01], steps=60, generator=generator)
    assert [p.penalty for p in path] == [0.05, 0.02, 0.01]
    assert path[0].error > path[1].error > path[2].error
    assert path[0].share < path[1].share < path[2].share


def test_the_span_of_filters_is_what_they_add_up_to(generator):
    """One 2 × 2 filter moved by 2 on 4 × 4 pictures: what it makes is in the span, what is orthogonal to all its copies is not."""
    layer = nn.Conv2d(1, 1, 2, 2, bias=False)
    filters = filters_of(layer, 4)
    made = filters.images(torch.randn(3, 1, 2, 2, generator=generator))
    other = torch.randn(3, 1, 4, 4, generator=generator)
    other = other - filters.images(filters.correlations(other))
    both = made / made.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1) + other / other.flatten(1).norm(
        dim=1
    ).reshape(-1, 1, 1, 1)
    assert float(span_error(filters, made).max()) < 1e-12
    assert span_error(filters, other.detach()).tolist() == pytest.approx([1.0] * 3)
    assert span_error(filters, both.detach()).tolist() == pytest.approx([0.5] * 3, rel=1e-5)


def test_filters_that_span_every_image_leave_nothing_outside(generator):
    """The identity among the filters of stride 1: no spectrum is asked, and the answer is that of the spectrum."""
    layer = nn.Conv2d(2, 3, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).reshape(3, 2, 1, 1))
    x = torch.randn(4, 2, 5, 5, generator=generator)
    assert span_error(filters_of(layer, 5), x).tolist() == [0.0] * 4


def test_principal_directions_of_few_points_are_those_of_their_covariance(generator):
    """Fewer points than pixels: the small matrix gives the same subspace as the large one (points repeated)."""
    x = torch.randn(20, 50, generator=generator) * torch.linspace(3, 0.1, 50)
    few, many = principal_directions(x, share=0.1), principal_directions(x.repeat(3, 1), share=0.1)
    torch.testing.assert_close(few.T @ few, torch.eye(5).double())
    torch.testing.assert_close(few @ few.T, many @ many.T)
