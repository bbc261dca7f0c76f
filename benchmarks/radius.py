"""Robust radii: how tight, how fast, how they grow, and the tools people use in the same run."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, log

import numpy as np
import torch

from benchmarks.timing import line, medians
from featureprism import Budget, RadiusBracket, generator_for, robust_radius
from featureprism.attacks import AtRandom, pgd, structured_starts
from featureprism.data import Dataset, orthogonal_clusters, orthonormal_clusters, sample
from featureprism.geometry import LpBall
from featureprism.models import read_model
from featureprism.networks import PolynomialReLU, ReLU, TwoLayerNet, decoupled_classifier, gaussian_start
from featureprism.papers.beyond.networks import Trained, averaging_network, mixture_network
from featureprism.papers.beyond.peers import AttackTask, answers
from featureprism.verify.bounds import crown_radius

POINTS = 100


def decoupled() -> Trained:
    """f_dec, k = 10, d = 3072."""
    clusters = orthogonal_clusters(3072, 5, 5, 1.0, generator=generator_for("centres", 0))
    test = sample(clusters, POINTS, generator=generator_for("test", 0))
    return Trained(decoupled_classifier(clusters.mu, clusters.labels), clusters, test)


def random_relu(width: int) -> Trained:
    """Gaussian weights in 20 dimensions; points labelled by the network itself."""
    generator = generator_for("random", width)
    net = gaussian_start(width, 20, 1.0, ReLU(), generator=generator)
    clusters = orthonormal_clusters(20, 1, 1, 1.0, generator=generator)
    x = torch.randn(POINTS, 20, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    return Trained(net, clusters, Dataset(x, y, torch.zeros(POINTS, dtype=torch.long), clusters.mu))


def mixture(activation, std: float, step_size: float) -> Callable[[], Trained]:
    """Width 200, D = 2000, K = 12+8."""
    return lambda: mixture_network(activation, std, step_size, 2000, 100, POINTS, 0)


NETWORKS: dict[str, tuple[Callable[[], Trained], float, float, float]] = {
    # name: (network, gap asked of the search, largest median gap, largest seconds a point)
    "feature averaging": (lambda: averaging_network(3072, POINTS, 0), 0.0005, 0.001, 0.02),
    "f_dec": (decoupled, 0.005, 0.01, 0.1),
    "ReLU": (mixture(ReLU(), 1e-2, 0.2), 0.001, 0.002, 0.2),
    "pReLU std 1e-3": (mixture(PolynomialReLU(3.0), 1e-3, 0.5), 0.01, 0.01, 1.0),
    "pReLU std 1e-2": (mixture(PolynomialReLU(3.0), 1e-2, 0.5), 0.01, inf, inf),
    **{f"random width {w}": (lambda w=w: random_relu(w), 0.01, 0.01, 5.0) for w in (10, 20, 50)},
}


def bracket(trained: Trained, gap: float, seconds: float) -> RadiusBracket:
    """The bracket as a user asks for it."""
    starts = structured_starts(trained.net)
    return robust_radius(
        trained.net,
        trained.test.x,
        trained.test.y,
        gap=gap,
        budget=Budget(seconds=seconds * len(trained.test.x)),
        starts=starts,
    )


def table() -> Iterator[str]:
    """Median gap and seconds a point of every network, CROWN and foolbox beside it."""
    for name, (make, gap, tight, fast) in NETWORKS.items():
        trained = make()
        net, (x, y) = trained.net, (trained.test.x, trained.test.y)
        found = bracket(trained, gap, min(0.8 * fast, 2.0))  # the rest is for the attack and the checker
        form = read_model(net).one_layer
        assert form is not None
        began = time.perf_counter()
        votes = y.unsqueeze(1) * form.weight
        crown = crown_radius(form, x @ form.W.T + form.b, votes, 2, torch.from_numpy(found.attacked)).numpy()
        crown_seconds = (time.perf_counter() - began) / len(x)
        ratio = float(np.median(found.certified / crown))
        middle = float(np.median(found.gap))
        good = middle <= tight and found.seconds <= fast
        yield (
            f"{'ok  ' if good else 'MISS'} radius of {name}: median gap {middle:.2%} (at most {tight:.1%}), "
            f"{found.seconds:.3f} s a point (at most {fast:g}), {len(x)} points; certified ÷ CROWN {ratio:.2f} "
            f"at {found.seconds / crown_seconds:.0f} times its time; plain PGD misses {found.blind_share:.0%}"
        )
        if name in ("feature averaging", "ReLU", "pReLU std 1e-3"):
            yield from against_foolbox(name, net, trained.test, found)


def against_foolbox(name: str, net: TwoLayerNet, test: Dataset, found: RadiusBracket) -> Iterator[str]:
    """Our attacked radius against the best of foolbox's attacks on every point."""
    eps = 1.05 * float(found.attacked.max())
    rivals = [a for a in answers(AttackTask(net, test.x, test.y, eps)) if a.mode in ("defaults", "tuned")]
    if rivals:
        ratio = found.attacked / torch.stack([a.radius for a in rivals]).amin(dim=0).numpy()
        worst, middle = float(ratio.max()), float(np.median(ratio))
        verdict = "ok  " if worst <= 1 + 1e-4 else "MISS"
        yield f"{verdict} attack on {name}: ours ÷ best of foolbox {worst:.5f} on the worst point, {middle:.5f} median"


def same_pgd() -> Iterator[str]:
    """PGD of 100 steps, D = 2000, width 200: in the span, and by foolbox through the two-logit adapter.

    Started at the point itself both do the same steps and must find the same points; timed with five starts each, as one evaluates.
    """
    try:
        import foolbox
    except ImportError:
        yield "     foolbox is not installed: no comparison"
        return
    from featureprism.networks import TwoLogits

    trained = mixture_network(ReLU(), 1e-2, 0.2, 2000, 100, POINTS, 0)
    net, (x, y) = trained.net, (trained.test.x, trained.test.y)
    eps, labels = 0.27, (y > 0).long()
    model = foolbox.PyTorchModel(TwoLogits(net).eval(), bounds=(-10, 10))  # pyright: ignore[reportPrivateImportUsage]
    plain = foolbox.attacks.L2PGD(steps=100, rel_stepsize=2.5 / 100, random_start=False)
    _, _, theirs = plain(model, x, labels, epsilons=eps)
    ours = pgd(net, x, y, LpBall(2, eps), steps=100).flipped
    same = float((theirs == ours).double().mean())
    once, ours_once = medians(
        lambda: plain(model, x, labels, epsilons=eps),
        lambda: pgd(net, x, y, LpBall(2, eps), steps=100),
        repeats=5,
    )
    restarted = foolbox.attacks.L2PGD(steps=100, rel_stepsize=2.5 / 100).repeat(5)
    starts = [AtRandom(4, generator_for("starts", 0))]
    slow, fast = medians(
        lambda: restarted(model, x, labels, epsilons=eps),
        lambda: pgd(net, x, y, LpBall(2, eps), starts=starts, steps=100),
        repeats=3,
    )
    setting = "PGD of 100 steps, D = 2000, width 200"
    yield line(f"{setting}, five starts: foolbox ÷ ours", slow / fast, 8.0, at_most=False)
    yield f"     {setting}, one start: foolbox ÷ ours {once / ours_once:.2f}"
    yield line(f"{setting}, one start: share of points on which both agree", same, 0.99, at_most=False)


def exponents() -> Iterator[str]:
    """Seconds against the number of points and against d, on f_dec and feature-averaging networks."""

    def slope(sizes: list[int], run: Callable[[int], Callable[[], object]]) -> float:
        seconds = medians(*(run(s) for s in sizes), repeats=3)
        return (log(seconds[-1]) - log(seconds[0])) / (log(sizes[-1]) - log(sizes[0]))

    trained = averaging_network(3072, 800, 0)

    def points(num: int) -> Callable[[], object]:
        test = trained.test
        part = replace(test, x=test.x[:num], y=test.y[:num], cluster=test.cluster[:num])
        return lambda: bracket(trained._replace(test=part), 0.0005, 1.0)

    yield line("exponent of the time in the number of points (100 to 800)", slope([100, 800], points), 1.1)

    def dims(dim: int) -> Callable[[], object]:
        wide = averaging_network(dim, POINTS, 0)
        return lambda: bracket(wide, 0.0005, 1.0)

    yield line("exponent of the time in d (1000 to 16000)", slope([1000, 16000], dims), 1.1)


def ratios() -> Iterator[str]:
    """Everything."""
    yield from same_pgd()
    yield from exponents()
    yield from table()
