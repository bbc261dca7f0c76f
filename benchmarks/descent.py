"""One descent step against its bare matrix products and an autograd loop; eight starts against one."""

from collections.abc import Iterator

import torch

from benchmarks.timing import line, medians
from featureprism import generator_for
from featureprism.models.one_layer import stack
from featureprism.networks import PolynomialReLU, ReLU, TwoLayerNet, gaussian_start
from featureprism.training import Loss, gradient_descent

STEPS = 50  # long enough that what a run does once does not count


def ratios() -> Iterator[str]:
    """Lines of the benchmark."""
    yield from single_step()
    yield from eight_starts()


def data(num_points: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = generator_for("bench", 0)
    x = torch.randn(num_points, dim, generator=generator) / dim**0.5
    return x, torch.sign(torch.randn(num_points, generator=generator))


def single_step() -> Iterator[str]:
    """n = 5000, D = 1000, width 100, float32."""
    x, y = data(5000, 1000)
    loss = Loss("square", "mean")
    for name, activation in (("ReLU", ReLU()), ("pReLU p=3", PolynomialReLU(3.0))):
        net = gaussian_start(100, 1000, 0.1, activation, generator=generator_for("start", 0)).float()
        W, back = net.W.detach(), torch.randn(100, 5000)

        def bare(W: torch.Tensor = W, back: torch.Tensor = back) -> None:
            for _ in range(STEPS):
                _ = x @ W.T, back @ x

        def ours(net: TwoLayerNet = net) -> None:
            gradient_descent(net, x, y, loss=loss, step_size=0.1, steps=STEPS)

        def autograd(net: TwoLayerNet = net) -> None:
            for _ in range(STEPS):
                net.zero_grad()
                loss.value(net(x), y).backward()
                with torch.no_grad():
                    for parameter in net.parameters():
                        assert parameter.grad is not None
                        parameter -= 1e-9 * parameter.grad

        products, step, loop = medians(bare, ours, autograd, repeats=5)
        yield line(f"descent step, {name}: ours ÷ bare matrix products", step / products, 1.5)
        yield line(f"descent step, {name}: autograd loop ÷ ours", loop / step, 1.0, at_most=False)


def eight_starts() -> Iterator[str]:
    """n = 1000, D = 3072, width 10: eight initialisations in one batch."""
    x, y = data(1000, 3072)
    loss = Loss("logistic", "mean")
    nets = [
        gaussian_start(10, 3072, 0.1, ReLU(), generator=generator_for("start", i)).float() for i in range(8)
    ]
    many, one = stack(nets), nets[0]

    def run(net: TwoLayerNet) -> None:
        gradient_descent(net, x, y, loss=loss, step_size=0.1, steps=STEPS)

    together, single = medians(lambda: run(many), lambda: run(one))
    yield line("eight starts in one batch ÷ one start", together / single, 4.0)
