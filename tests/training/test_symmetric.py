"""Algorithms 1 and 2: the step against autograd, schedules, rotations, adversaries on linear ground."""

import math

import pytest
import torch

from featureprism.attacks import FastGradient
from featureprism.attacks.gradient import ProjectedGradient, SmoothAdversary
from featureprism.data import SparseCoding, dictionary, label_weights, sample_sparse, two_level
from featureprism.geometry import LpBall
from featureprism.networks import LinearClassifier, SymmetricNet, symmetric_start
from featureprism.networks.gates import openings, smoothed_relu
from featureprism.seeds import generator_for
from featureprism.training import Phase, from_pool, train_symmetric
from featureprism.training.adversarial import Moments, adam_step, logistic_descent
from featureprism.training.resting import QUIET, Watch
from featureprism.training.symmetric import fresh, symmetric_step
from featureprism.training.trajectory import Ended


def objective(W: torch.Tensor, x, y, bias, smoothing, penalty) -> torch.Tensor:
    u = x @ W.T
    value = (smoothed_relu(u - bias, smoothing) - smoothed_relu(-u - bias, smoothing)).sum(dim=1)
    norms = torch.linalg.vector_norm(W, dim=1)
    return torch.nn.functional.softplus(-y * value).mean() + penalty * (norms**2 / 2 + norms**3 / 3).sum()


def data(dim=30, num=200, dtype=torch.float64, **more):
    coding = SparseCoding(
        dictionary("identity", dim, generator=generator_for("M", 0), dtype=dtype),
        label_weights("signs", dim, generator=generator_for("w", 0), dtype=dtype),
        two_level(dim, 4.0),
        noise=0.2,
        **more,
    )
    return coding, sample_sparse(coding, num, generator=generator_for("train", 0))


def test_the_step_is_descent_on_the_objective(generator):
    _, s = data()
    W = 0.3 * torch.randn(8, 30, generator=generator).double()
    moving = W.clone()
    symmetric_step(moving, s.x, s.y, bias=0.2, smoothing=0.05, step_size=0.5, penalty=0.03)
    leaf = W.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(leaf, s.x, s.y, 0.2, 0.05, 0.03), leaf)
    assert torch.allclose(moving, W - 0.5 * gradient, atol=1e-12)


def test_the_step_of_mostly_closed_gates_is_descent_too(generator):
    _, s = data(num=400)
    W = 0.25 * torch.randn(8, 30, generator=generator).double()
    leaf, moving = W.clone().requires_grad_(), W.float()
    assert openings(s.x.float() @ moving.T, 0.8, 0.02) is not None
    symmetric_step(moving, s.x.float(), s.y.float(), bias=0.8, smoothing=0.02, step_size=5.0, penalty=0.03)
    (gradient,) = torch.autograd.grad(objective(leaf, s.x, s.y, 0.8, 0.02, 0.03), leaf)
    assert torch.allclose(moving.double(), W - 5 * gradient, atol=1e-6)


def test_sampled_noise_averages_to_the_smoothed_step_when_the_loss_is_flat(generator):
    _, s = data(num=40)
    W = 1e-3 * torch.randn(5, 30, generator=generator).double()  # f ≈ 0, so that ℓ' is 1/2 whatever the noise
    smooth = W.clone()
    symmetric_step(smooth, s.x, s.y, bias=1e-3, smoothing=1e-3, step_size=1.0, penalty=0.0)
    moves = []
    for _ in range(600):
        one = W.clone()
        symmetric_step(one, s.x, s.y, bias=1e-3, smoothing=1e-3, step_size=1.0, penalty=0.0, noise=generator)
        moves.append(one - W)
    stack = torch.stack(moves)
    error = (stack.mean(dim=0) - (smooth - W)).abs() / (stack.std(dim=0) / 600**0.5 + 1e-6)
    assert float(error.max()) < 5


def test_bias_step_and_smoothing_follow_the_phases():
    coding, s = data(dtype=torch.float32)
    net = symmetric_start(6, 30, 1e-3, 0.01, 0.0, generator=generator_for("start", 0))
    phases = [
        Phase(5, 2.0, 0.3, step_per_bias=10.0, bias_growth=0.5, bias_cap=0.05),
        Phase(3, 0.1, 0.1, bias_growth=0.2),
    ]
    draw = from_pool(s.x, s.y, 20, generator=generator_for("batches", 0))
    run = train_symmetric(net, draw, phases, penalty=0.01, record=range(9))
    bias, expected = 0.01, [0.01]
    for _ in range(5):
        bias = min(0.05, bias + min(2.0, 10 * bias) * 0.5)
        expected.append(bias)
    for _ in range(3):
        bias += 0.1 * 0.2
        expected.append(bias)
    assert [n.bias for n in run.snapshots] == pytest.approx(expected)
    assert [n.smoothing / n.bias for n in run.snapshots[:5]] == pytest.approx([0.3] * 5)
    assert run.last.smoothing == pytest.approx(0.1 * run.last.bias)
    assert run.ended == Ended.TIME_REACHED
    assert run.times == list(range(9))
    assert net.bias == 0.01
    assert phases[1].radius_at(0) == 1.0
    assert Phase(3, 1.0, 0.1, ramp=(0.0, 1.0)).radius_at(1) == 0.5
    x, y = fresh(coding, 7, generator=generator_for("fresh", 0))()
    assert x.shape == (7, 30)
    assert bool((y.abs() == 1).all())


def test_training_is_the_same_in_a_rotated_dictionary(generator):
    _, s = data()
    R = dictionary("haar", 30, generator=generator, dtype=torch.float64)
    net = symmetric_start(12, 30, 0.05, 0.05, 0.01, generator=generator_for("start", 0), dtype=torch.float64)
    turned = SymmetricNet(net.W.detach() @ R.T, net.bias, net.smoothing)
    ends = []
    for start, x in ((net, s.x), (turned, s.x @ R.T)):
        draw = from_pool(x, s.y, 50, generator=generator_for("batches", 0))
        phases = [Phase(30, 1.0, 0.2), Phase(20, 1.0, 0.2, perturb=FastGradient(LpBall(2, 0.1)))]
        ends.append(train_symmetric(start, draw, phases, penalty=0.01).last.W.detach())
    assert torch.allclose(ends[0] @ R.T, ends[1], atol=1e-8)


def test_a_step_that_is_too_long_is_said_to_diverge():
    _, s = data(dtype=torch.float32)
    net = symmetric_start(6, 30, 0.1, 0.0, 0.0, generator=generator_for("start", 0))
    draw = from_pool(s.x, s.y, 20, generator=generator_for("batches", 0))
    run = train_symmetric(net, draw, [Phase(60, 1e6, 0.2)], penalty=1.0)
    assert run.ended == Ended.DIVERGED
    with pytest.raises(ValueError, match="positive step"):
        Phase(10, 0.0, 0.2)


@pytest.mark.parametrize(("p", "q"), [(2, 2), (math.inf, 1)])
def test_adversaries_are_exact_on_a_linear_network(p, q, generator):
    w = torch.randn(6, generator=generator).double()
    net = LinearClassifier(w)
    x = torch.randn(9, 6, generator=generator).double()
    y = torch.sign(torch.randn(9, generator=generator).double())
    lost = 0.3 * torch.linalg.vector_norm(w, ord=q)
    for adversary in (FastGradient(LpBall(p, 0.3)), ProjectedGradient(LpBall(p, 0.3))):
        moved, labels = adversary(net, x, y)
        assert torch.allclose((labels * net(moved)).detach(), (y * net(x)).detach() - lost, atol=1e-9)
        half, _ = adversary(net, x, y, 0.5)
        assert torch.allclose((y * net(half)).detach(), (y * net(x)).detach() - lost / 2, atol=1e-9)


def test_fgm_leaves_points_with_tiny_gradients_alone(generator):
    net = LinearClassifier(1e-9 * torch.ones(4).double())
    x = torch.randn(3, 4, generator=generator).double()
    y = torch.ones(3).double()
    assert torch.equal(FastGradient(LpBall(2, 0.5), zero=1e-6)(net, x, y)[0], x)
    assert not torch.equal(FastGradient(LpBall(2, 0.5))(net, x, y)[0], x)


def test_smooth_adversary_moves_by_eps_and_adds_the_noise(generator):
    w = torch.tensor([3.0, 4.0]).double()
    net, x, y = LinearClassifier(w), torch.zeros(500, 2).double(), torch.ones(500).double()
    adversary = SmoothAdversary(0.5, 0.1, generator, samples=4)
    moved, labels = adversary(net, x, y)
    assert moved.shape == (2000, 2)
    assert labels.shape == (2000,)
    assert torch.allclose(moved.mean(dim=0), -0.5 * w / 5, atol=0.02)
    assert float(moved.std(dim=0).mean()) == pytest.approx(0.1, rel=0.1)


def test_logistic_descent_learns_and_adversarial_training_shortens_the_weights(generator):
    x = torch.randn(400, 5, generator=generator)
    y = torch.sign(x[:, 0] + 1e-6)
    draw = from_pool(x, y, 100, generator=generator)
    nets = {}
    for name, adversary in (("clean", None), ("adversarial", FastGradient(LpBall(2, 0.5)))):
        nets[name] = LinearClassifier(torch.zeros(5))
        run = logistic_descent(nets[name], draw, steps=150, step_size=0.05, perturb=adversary)
        assert run.ended == Ended.TIME_REACHED
        assert float((y * nets[name](x) > 0).float().mean()) > 0.93
    assert float(nets["adversarial"].w.detach().norm()) < float(nets["clean"].w.detach().norm())


def test_adam_is_the_algorithm_as_printed(generator):
    """Kingma & Ba, Algorithm 1: running means divided by 1 - β^t, written out number by number."""
    gradients = torch.randn(5, 3, generator=generator).double()
    ours, moments = torch.ones(3).double(), Moments(torch.zeros(3).double(), torch.zeros(3).double())
    for step, gradient in enumerate(gradients, 1):
        adam_step(ours, gradient, moments, step, 0.03)
    for i in range(3):
        value, m, v = 1.0, 0.0, 0.0
        for t, g in enumerate(gradients[:, i].tolist(), 1):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            value -= 0.03 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        assert float(ours[i]) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_step_with_a_bias_for_each_neuron_is_descent_on_weights_and_biases(dtype, generator):
    _, s = data(num=400)
    W, b = 0.25 * torch.randn(8, 30, generator=generator).double(), torch.linspace(0.5, 1.5, 8).double()
    weights, biases = W.clone().requires_grad_(), b.clone().requires_grad_()
    loss = objective(weights, s.x, s.y, biases, 0.02, 0.03)
    slopes = torch.autograd.grad(loss, (weights, biases))
    net = SymmetricNet(W.to(dtype), b.to(dtype), 0.02)
    run = train_symmetric(
        net,
        lambda: (s.x.to(dtype), s.y.to(dtype)),
        [Phase(1, step_size=2.0, smoothing=0.02, bias_descent=0.5)],
        penalty=0.03,
    )
    expected = [W - 2 * slopes[0], b - slopes[1]]
    for moved, wanted in zip((run.last.W, run.last.thresholds), expected, strict=True):
        assert torch.allclose(torch.as_tensor(moved).double(), wanted, atol=1e-6)
    assert torch.equal(torch.as_tensor(net.thresholds), b.to(dtype))


def test_biases_that_are_trained_stay_above_zero_and_are_kept_by_later_phases(generator):
    net = symmetric_start(9, 6, 0.5, 0.3, 0.1, generator=generator)
    x, y = torch.randn(50, 6, generator=generator), torch.ones(50)
    draw = from_pool(x, y, 20, generator=generator)
    phase = Phase(40, step_size=1.0, smoothing=0.1, bias_descent=1.0)
    after = train_symmetric(net, draw, [phase], penalty=0.0).last
    biases = torch.as_tensor(after.thresholds)
    assert biases.shape == (9,)
    assert float(biases.min()) > 0
    assert len(biases.unique()) > 1
    assert after.smoothing == pytest.approx(0.1 * after.level)
    with pytest.raises(ValueError, match="its own bias"):
        _ = after.bias
    later = train_symmetric(after, draw, [Phase(3, 1.0, 0.1)], penalty=0.0, watch=1).last
    assert torch.equal(torch.as_tensor(later.thresholds), biases)


def test_fresh_batches_are_drawn_together_and_never_twice(generator):
    coding = SparseCoding(
        dictionary("identity", 20, generator=generator),
        label_weights("signs", 20, generator=generator),
        two_level(20, 4.0),
        noise=0.2,
    )
    draw = fresh(coding, 7, generator=generator)
    batches = [draw()[0] for _ in range(5)]
    assert all(batch.shape == batches[0].shape for batch in batches)
    assert len(torch.cat(batches).unique(dim=0)) == 35


def test_neurons_at_rest_change_nothing_but_the_time():
    coding = SparseCoding(
        dictionary("haar", 40, generator=generator_for("M", 0)),
        label_weights("signs", 40, generator=generator_for("w", 0)),
        two_level(40, 4.0),
        noise=0.5,
    )
    net = symmetric_start(120, 40, 0.01, 0.02, 0.0, generator=generator_for("start", 0))
    clean = Phase(120, 1.2, 0.05, step_per_bias=8.0, bias_growth=0.3 / 40, bias_cap=0.25)
    harder = Phase(40, 1.2, 0.05, perturb=FastGradient(LpBall(2, 0.1)))
    runs = []
    for watch in (0, 4):
        draw = fresh(coding, 120, generator=generator_for("batches", 0))
        runs.append(
            train_symmetric(net, draw, [clean, harder], penalty=0.1 / 40, record=[50, 121], watch=watch)
        )
    for plain, watched in zip(runs[0].snapshots, runs[1].snapshots, strict=True):
        W, same = plain.W.detach(), watched.W.detach()
        assert W.shape == same.shape
        assert float((W - same).norm() / W.norm()) < 1e-3


def test_only_quiet_neurons_rest_and_their_norms_follow_the_penalty():
    W = torch.diag(torch.tensor([1.0, 0.9, 0.1, 0.05])).double()
    net, rate, penalty = SymmetricNet(W, 0.5, 0.01), 2.0, 0.1
    crew, x = Watch(net, 1, penalty), torch.eye(4, dtype=torch.float64)
    for _ in range(QUIET):
        assert net.width == 4
        crew.look(x)
    crew.dismiss()
    assert net.width == 2
    expected = W.clone()
    for _ in range(3):
        crew.shrink(rate)
        expected[2:] *= 1 - rate * penalty * (1 + expected[2:].norm(dim=1, keepdim=True))
    crew.wake()
    assert torch.allclose(net.W.data, expected)
    crew.look(100 * x)  # what comes near its threshold once is awake again
    crew.dismiss()
    assert net.width == 4
