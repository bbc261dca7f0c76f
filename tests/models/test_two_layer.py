import pytest
import torch

from featureprism.geometry import span_basis
from featureprism.models.one_layer import parameter_gradient, stack
from featureprism.networks import PolynomialReLU, PowerReLU, ReLU, Tanh, TwoLayerNet

ACTIVATIONS = [
    ReLU(),
    PowerReLU(3.0),
    PowerReLU(1.5),
    PolynomialReLU(1.0),
    PolynomialReLU(3.0),
    PolynomialReLU(2.7),
    Tanh(),
]


def make(activation, generator, *, bias, width=5, dim=4):
    draw = lambda *shape: torch.randn(*shape, generator=generator).double()  # noqa: E731
    return TwoLayerNet(draw(width, dim), draw(width), draw(width) if bias else None, activation=activation)


def by_hand(net, x):
    """Three nested loops, straight from the definition."""
    values = []
    for point in x.tolist():
        total = 0.0
        for j in range(net.width):
            w, b = net.W[j].tolist(), 0.0 if net.b is None else float(net.b[j].detach())
            z = sum(wi * xi for wi, xi in zip(w, point, strict=True)) + b
            norm = sum(wi * wi for wi in w) ** 0.5
            match net.activation:
                case Tanh():
                    phi = float(torch.tanh(torch.tensor(z, dtype=torch.float64)))
                case PolynomialReLU(p):
                    phi = max(z, 0.0) ** p / norm ** (p - 1)
                case ReLU() | PowerReLU():
                    phi = max(z, 0.0) ** net.activation.p
            total += float(net.a[j].detach()) * phi
        values.append(total)
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_outputs_match_the_definition(activation, bias, generator):
    net, x = make(activation, generator, bias=bias), torch.randn(6, 4, generator=generator).double()
    torch.testing.assert_close(net(x).detach(), by_hand(net, x))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_closed_gradients_match_autograd(activation, bias, generator):
    net, x = make(activation, generator, bias=bias), torch.randn(6, 4, generator=generator).double()
    g = torch.randn(6, generator=generator).double()
    x.requires_grad_()
    (g * net(x)).sum().backward()
    f, gradient = parameter_gradient(net.W, net.a, net.b, activation, x, lambda _: g)
    torch.testing.assert_close(f, net(x).detach())
    for parameter, closed in zip(net.parameters(), gradient, strict=False):
        torch.testing.assert_close(closed, parameter.grad)
    value, slope = net.input_gradient(x.detach())
    torch.testing.assert_close(value, f.detach())
    torch.testing.assert_close(g.unsqueeze(1) * slope, x.grad)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_a_stack_is_its_networks(activation, generator):
    nets = [make(activation, generator, bias=True) for _ in range(3)]
    x = torch.randn(6, 4, generator=generator).double()
    torch.testing.assert_close(stack(nets)(x), torch.stack([net(x) for net in nets]))
    torch.testing.assert_close(stack(nets)[1](x), nets[1](x))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_the_span_holds_everything_a_network_sees(activation, generator):
    net = make(activation, generator, bias=True, width=3, dim=20)
    x = torch.randn(6, 20, generator=generator).double()
    Q = span_basis(net.input_directions())
    assert Q.shape == (20, 3)
    torch.testing.assert_close(net.in_coordinates(Q)(x @ Q), net(x))


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float32, 1e-18), (torch.float64, 1e-150)])
def test_prelu_is_homogeneous_of_degree_two_at_tiny_scales(dtype, scale, generator):
    # f(s·θ) = s² f(θ); the naive power of ⟨x,w⟩/‖w‖^(p-1) would under- or overflow here
    net = make(PolynomialReLU(3.0), generator, bias=False).to(dtype)
    x = torch.randn(6, 4, generator=generator).to(dtype)
    small = TwoLayerNet(scale * net.W, scale * net.a, activation=net.activation)
    torch.testing.assert_close((small(x).double() / scale) / scale, net(x).double(), rtol=1e-5, atol=1e-6)


def test_zero_neurons_are_harmless():
    net = TwoLayerNet(torch.zeros(2, 3), torch.ones(2), torch.ones(2), activation=PolynomialReLU(3.0))
    value, gradient = net.input_gradient(torch.ones(1, 3))
    assert float(value) == 0
    assert float(gradient.abs().max()) == 0


def test_bad_networks_are_refused(generator):
    with pytest.raises(ValueError, match="Need W"):
        TwoLayerNet(torch.zeros(3, 2), torch.zeros(2), activation=ReLU())
    with pytest.raises(ValueError, match="shape of a"):
        TwoLayerNet(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2), activation=ReLU())
    with pytest.raises(ValueError, match="NaN"):
        TwoLayerNet(torch.full((3, 2), torch.nan), torch.zeros(3), activation=ReLU())
    with pytest.raises(ValueError, match="at least 1"):
        PolynomialReLU(0.5)
    with pytest.raises(ValueError, match="stacked"):
        stack([make(ReLU(), generator, bias=False), make(Tanh(), generator, bias=False)])
