"""No certified radius reaches beyond a flip: random models of every kind, both norms, boxes, against brute force.

Most of them with a stand-in for the attack that is too long on purpose (see `LongWitnesses`).
"""

from collections import Counter

import numpy as np
import pytest
import torch
from asking import asked
from small_models import Question, long_witnesses, question, worst_margins

from featureprism.brackets import RadiusBracket

REACH = 4.0
PARTS = [0, *(pytest.param(part, marks=pytest.mark.thorough) for part in range(1, 20))]
PER_PART = 500
SHARES = (
    0.025,
    0.05,
    0.925,
)  # of models with the attack itself, at one radius that no attack looks at, with long witnesses
CELLS = {"several_layers": 32, "read_out": 16}  # that it takes to prove more than cheap bounds do


def answered(q: Question, seed: int) -> tuple[str, RadiusBracket]:
    """How it was asked, and the answer."""
    effort = {
        "norm": q.norm,
        "bounds": q.domain,
        "branches": CELLS.get(q.kind, 2),
    }
    rng = np.random.default_rng((seed, 6))
    how = str(rng.choice(["attack", "at", "long"], p=SHARES))
    if how == "attack":
        return how, asked(q.net, q.x, q.labels, max_radius=REACH, **effort)
    with long_witnesses(rng, float(rng.choice([1.0, 1.0, 1.1, 1.5])) if how == "long" else 0.0):
        if how == "at":
            return how, asked(q.net, q.x, q.labels, eps=float(rng.uniform(0.05, 1.0)), **effort)
        return how, asked(q.net, q.x, q.labels, max_radius=REACH, **effort)


def wrong_with(q: Question, bracket: RadiusBracket, rng: np.random.Generator) -> str:
    """What a bracket says that brute force refutes."""
    worst, proven = worst_margins(q, bracket.certified, rng), bracket.certified > 0
    if bool((worst <= 0)[proven].any()):
        return "certified beyond a flip"
    flipped = torch.isfinite(bracket.attacked)
    if bracket.witness is not None:
        flipped &= (bracket.witness != 0).any(dim=1)  # a closed form knows radii for which no attack was run
    if bracket.witness is not None and bool((q.margin(q.x + bracket.witness) > 0)[flipped].any()):
        return "a witness that does not flip"
    return ""


def asked_all(seeds: range) -> tuple[Counter, list[str]]:
    """Points by what was asked and how it was proven, and everything that went wrong."""
    counts, wrong = Counter(), []
    for seed in seeds:
        q = question(seed)
        try:
            how, bracket = answered(q, seed)
            trouble = wrong_with(q, bracket, np.random.default_rng((seed, 7)))
        except Exception as error:  # a failed optimisation is to widen a bracket
            wrong.append(f"seed {seed}, {q.kind}: {error!r:.100}")
            continue
        wrong += [f"seed {seed}, {q.kind}: {trouble}"] if trouble else []
        where = f"norm {q.norm:g}", "box" if q.domain else "no box"
        counts.update((q.kind, *where, how, method) for method in bracket.method)
    return counts, wrong


def test_no_certificate_exceeds_the_truth_of_random_models():
    counts, wrong = asked_all(range(0, 80, 3))
    assert wrong == []
    assert len({method for *_, method in counts}) > 6


def test_brute_force_sees_radii_that_are_a_little_too_long():
    seen = []
    for seed in range(0, 84, 12):
        q = question(seed)
        bracket = asked(q.net, q.x, q.labels, norm=q.norm, bounds=q.domain, max_radius=REACH, branches=1)
        known = torch.isfinite(bracket.attacked) & (bracket.attacked > 0)
        worst = worst_margins(
            q, torch.where(known, 1.001 * bracket.attacked, 0.0), np.random.default_rng(seed)
        )
        seen += (worst <= 0)[known].tolist()
    assert np.mean(seen) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_no_certificate_exceeds_the_truth_of_ten_thousand_random_models(part):
    counts, wrong = asked_all(range(PER_PART * part, PER_PART * (part + 1)))
    print(f"\npart {part}: {PER_PART} models, {sum(counts.values())} points, {len(wrong)} wrong")
    for place, name in enumerate(("kind", "norm", "box", "asked", "method")):
        sums: Counter = Counter()
        for key, number in counts.items():
            sums[key[place]] += number
        print(f"  {name}: " + ", ".join(f"{k} {v}" for k, v in sorted(sums.items())))
    assert wrong == []
