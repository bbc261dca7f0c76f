import pytest

from featureprism.papers.beyond import (
    phase_initialisation,
    phase_label_noise,
    phase_learning_rate,
    phase_noise,
    phase_purification,
    phase_scaling,
    phase_supervision,
)
from featureprism.papers.beyond.phase_initialisation import PHASE_INITIALISATION, fall
from featureprism.papers.beyond.phase_label_noise import PHASE_LABEL_NOISE, breakdown
from featureprism.papers.beyond.phase_learning_rate import PHASE_LEARNING_RATE
from featureprism.papers.beyond.phase_noise import PHASE_NOISE, points_for
from featureprism.papers.beyond.phase_purification import PHASE_PURIFICATION
from featureprism.papers.beyond.phase_scaling import PHASE_SCALING, extrapolated
from featureprism.papers.beyond.phase_supervision import PHASE_SUPERVISION
from featureprism.papers.feature_purification.setting import QUICK as PURIFICATION
from featureprism.records import silent
from featureprism.report.figures import DRAWINGS
from featureprism.sweep import run

TINY = [
    (
        PHASE_NOISE,
        [
            {
                "dim": 30,
                "positive": 2,
                "negative": 2,
                "neurons_per_cluster": 1,
                "test_points": 1,
                "num_times": 3,
            }
            | {"alpha": a, "per_cluster": n}
            for a in (0.2, 0.4)
            for n in (7, 25)
        ],
    ),
    (
        PHASE_INITIALISATION,
        phase_initialisation._settings(
            {"dim": 30, "per_cluster": 3, "test_points": 2, "steps": 30, "width": 20}, (2.0, 3.0), (0.01,)
        ),
    ),
    (PHASE_SUPERVISION, phase_supervision._settings((4,), 40, 2)),
    (
        PHASE_LEARNING_RATE,
        phase_learning_rate._settings(
            {"dim": 40, "points": 30, "steps": 5, "test_points": 2}, (1e-3, 0.1), (1e-5,)
        ),
    ),
    (PHASE_LABEL_NOISE, phase_label_noise._settings(20, 20, 2, (16, 32), (0.0, 0.3))),
    (
        PHASE_PURIFICATION,
        phase_purification._settings(
            PURIFICATION | {"pool": 200, "steps": 20, "adversarial_steps": 10, "test_points": 10},
            (24,),
            (5, 8),
        ),
    ),
    (PHASE_SCALING, phase_scaling._settings((40, 80), 25, 20, 30)[::-1]),
]
CLAIMS = {
    "phase-noise": {"exponent", "exponent-fixed-n", "exponent-points", "law"},
    "phase-initialisation": {"small", "large", "place", "power"},
    "phase-supervision": {"two-labels", "all-labels", "partial", "law"},
    "phase-learning-rate": {"boundary", "law", "radius"},
    "phase-label-noise": {"place", "law", "points"},
    "phase-purification": {"gain", "dense", "ceiling", "floor", "dimension"},
    "phase-scaling": {"gmm-flow", "feature-averaging", "feature-amplification", "cost", "extrapolation"},
}


@pytest.mark.parametrize(("experiment", "settings"), TINY, ids=[e.id for e, _ in TINY])
def test_each_item_measures_judges_and_draws(experiment, settings):
    rows = []
    for setting in settings:
        found = experiment.measure(setting, 0, silent)
        rows += [{"seed": 0, **setting, **row} for row in found]
    assert len(rows) == len(settings)
    assert experiment.measure(settings[0], 0, silent) == [
        {k: v for k, v in rows[0].items() if k not in ("seed", *settings[0])}
    ]
    name = experiment.id.partition("/")[2]
    assert {c.id for c in experiment.claims(rows)} == {f"{name}.{claim}" for claim in CLAIMS[name]}
    assert len(DRAWINGS[experiment.id](rows).axes) >= 2


def test_a_fall_is_interpolated_on_the_log_scale():
    best = 0.9 * 2**-0.5
    cells = [(1e-3, best + 0.1), (1e-1, best - 0.1), (1.0, 0.0)]
    rows = [{"kind": "cell", "p": 3.0, "seed": 0, "std": s, "half_radius": r} for s, r in cells]
    assert fall(rows, 3.0, 0) == pytest.approx(1e-2)
    assert fall(rows[:1], 3.0, 0) != fall(rows[:1], 3.0, 0)


def test_a_breakdown_is_interpolated():
    cells = [(0.0, 0.0), (0.2, 0.02), (0.4, 0.08)]
    rows = [{"kind": "cell", "points": 8, "seed": 0, "noise_rate": r, "clean_error": e} for r, e in cells]
    assert breakdown(rows, 8, "clean_error", 0) == pytest.approx(0.3)


def test_a_power_law_is_extrapolated():
    cells = [{"dim": d, "effect": 3 * d**0.5} for d in (100, 400, 900)]
    assert extrapolated(cells, "effect", 1e6) == pytest.approx(3000)


def test_the_line_of_the_alpha_square_law():
    assert [points_for(a) for a in (0.2, 0.1, 0.05, 0.126)] == [25, 100, 400, 63]
    assert sum(phase_noise.on_the_line(s) for s in PHASE_NOISE.scales["quick"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [e for e, _ in TINY], ids=lambda e: e.id)
def test_every_claim_holds_at_the_quick_scale(experiment, tmp_path):
    claims = run(experiment, "quick", [0, 1, 2], tmp_path).claims
    assert [c.id for c in claims if not c.holds] == []
