"""Counterexamples of properties by projected gradient descent in the box of inputs."""

import numpy as np
import torch

from featureprism.checker.layers import Layers
from featureprism.checker.vnnlib import Case
from featureprism.seeds import generator_for

STEPS = 60
FIRST_STEP, LAST_STEP = 0.25, 0.005  # of the width of the box, in every coordinate
AT_ONCE = 2048  # points
CLEAR = 1e-4  # a counterexample by this much is clear enough, also in float32


def counterexample(
    cases: list[Case], model: Layers, num_starts: int, seed: int, start: np.ndarray | None = None
) -> np.ndarray | None:
    """A point of a case's box at which all its rows have A y ≤ b, the clearest that was found; or None.

    Starts are random, but for the middle of the box or a given `start`.
    """
    generator = generator_for("property attack", seed)
    weights, biases = ([torch.from_numpy(t) for t in part] for part in (model.weights, model.biases))
    best, clearest = None, 0.0
    for case in cases:
        lower, upper = torch.from_numpy(case.lower), torch.from_numpy(case.upper)
        A, b = torch.from_numpy(case.A), torch.from_numpy(case.b)
        width = upper - lower
        count = min(num_starts, AT_ONCE)
        x = lower + width * torch.rand(count, len(lower), generator=generator, dtype=torch.float64)
        x[0] = lower + width / 2 if start is None else torch.from_numpy(start)
        for step in range(STEPS):
            x.requires_grad_(True)
            with torch.enable_grad():
                h = x
                for W, c in zip(weights[:-1], biases[:-1], strict=True):
                    h = torch.relu(h @ W.T + c)
                worst = ((h @ weights[-1].T + biases[-1]) @ A.T - b).amax(dim=1)
                (gradient,) = torch.autograd.grad(worst.sum(), x)
            x = x.detach()
            least, i = worst.detach().min(dim=0)
            if float(least) <= clearest if best is None else float(least) < clearest:
                best, clearest = x[i].numpy().copy(), float(least)
            if clearest < -CLEAR:
                return best
            size = FIRST_STEP * (LAST_STEP / FIRST_STEP) ** (step / (STEPS - 1))
            x = torch.minimum(torch.maximum(x - size * width * gradient.sign(), lower), upper)
    return best
