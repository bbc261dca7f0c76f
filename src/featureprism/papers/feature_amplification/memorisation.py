"""Does long training fit the flipped labels? A question that Section 5 leaves open."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from featureprism._progress import part
from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_amplification.setting import (
    C,
    NoisyXor,
    clean_error,
    log_times,
    margins,
    problem,
    trained,
)
from featureprism.probes.amplification import count_by_noise

NOISE = 0.1  # share of flipped labels


def measure(s: NoisyXor, seed: int, context: Context) -> list[Row]:
    """Flipped points fitted and clean test error along a long run."""
    data = problem(s, seed)
    run = trained(s, data.train, seed, log_times(s.steps), part(context.progress, 0, 0.9))
    flips = max(1, int(data.train.flipped.sum()))
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        _, fitted = count_by_noise(margins(net, data.train), data.train.flipped)
        error = clean_error(net, data.test)
        rows.append({"kind": "time", "time": time, "fitted_share": fitted / flips, "clean_error": error})
    context.progress(1.0)
    return rows


def _at_end(field: str, *, largest: bool) -> Callable[[Rows], Values]:
    """The value after the last step in the largest dimension, or in the smallest."""

    def value(run: Rows) -> float:
        dims = run.column("dim") if largest else -run.column("dim")
        last = int(np.lexsort((run.column("time"), dims))[-1])
        return run.column(field)[last]

    return lambda rows: rows.of("time").per_seed(value)


CLAIMS = (
    Claim(
        "high-dimension",
        source="Section 5, an open question",
        says="With more dimensions than points, long training fits nearly all flipped labels.",
        quantity="share of flipped labels that are fitted at the end, in the largest dimension",
        bound=at_least(0.9),
        because="nearly all is read as 90 %",
        value=_at_end("fitted_share", largest=True),
        origin="featureprism",
    ),
    Claim(
        "benign",
        source="Section 5, an open question",
        says="With more dimensions than points, fitting the flipped labels does no harm to new points: overfitting is benign.",
        quantity="clean test error at the end, in the largest dimension",
        bound=at_most(0.02),
        because="two percent",
        value=_at_end("clean_error", largest=True),
        origin="featureprism",
    ),
    Claim(
        "harmful",
        source="Section 5, an open question",
        says="With far fewer dimensions than points, long training fits only part of the flipped labels, and that costs test error.",
        quantity="clean test error at the end, in the smallest dimension",
        bound=above(0.02),
        because="two percent",
        value=_at_end("clean_error", largest=False),
        origin="featureprism",
        note=lambda rows: (
            f"{_at_end('fitted_share', largest=False)(rows).mean():.0%} of the flipped labels are fitted there"
        ),
    ),
)


def draw(rows: Rows) -> Any:
    """Flipped labels fitted and clean test error along long training."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels

    figure, (left, right) = panels(2, width=3.7, height=2.9)
    for colour, dim in zip(COLOURS, sorted(rows.of("time").distinct("dim")), strict=False):
        runs = rows.of("time", dim=dim)
        for panel, key in ((left, "fitted_share"), (right, "clean_error")):
            label = f"d = {dim}, n = {runs[0]['points']}"
            band(panel, *over_seeds(runs, "time", key), colour, label)
            panel.set(xscale="log", xlabel="steps")
    left.set(ylabel="flipped labels fitted", ylim=(-0.02, 1.02))
    right.set(ylabel="clean test error", ylim=(-0.02, 0.6))
    left.legend()
    return figure


def _settings(dims: tuple[int, ...], points: int, steps: int) -> list[NoisyXor]:
    """Noise of norm 1, so that points have something of their own to be memorised by, and larger steps."""
    sizes = {"points": points, "width": 60, "steps": steps, "noise_rate": NOISE, "step_size": 1.0}
    return [NoisyXor.on_edge(C, dim=dim, sigma=1 / sqrt(dim), **sizes) for dim in dims]


MEMORISATION = Experiment(
    id="feature-amplification/memorisation",
    source="Frei et al. 2023, Section 5",
    title="Does long training fit the flipped labels?",
    scales={
        "quick": _settings((20, 600), 150, 3000),
        "standard": _settings((20, 200, 1200), 300, 8000),
        "paper": _settings((20, 200, 1600), 400, 15000),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="The paper leaves open what happens after T = 1 + 1/(4α) steps. Most flipped labels are ignored at first and fitted later:"
    " harmlessly where there are more directions than points, at a cost where there are few.",
)
