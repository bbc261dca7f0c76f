"""Rows of the errata pages that no claim measures: what is printed, and what is right, by exact numbers and by drawing."""

import math
import re
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi, norm

from featureprism.lab import all_papers

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)


# gmm-flow


@pytest.mark.parametrize("dim", [4, 10, 100, 10_000])
@pytest.mark.parametrize("clusters", [2, 20])
@pytest.mark.parametrize("failure", [1.0, 0.05, 1e-12])
def test_event_3_of_lemma_4_is_true_as_printed(dim, clusters, failure):
    """‖Σε‖ = α√(N/D)‖g‖ passes √(2 ln(8K/δ)) α√N with probability δ/(4K) at most, from D = 4 on."""
    a = math.sqrt(2 * math.log(8 * clusters / failure))
    assert math.sqrt(2 * math.log(4 * clusters / failure)) <= (a - 1) * math.sqrt(dim)
    assert chi.sf(a * math.sqrt(dim), dim) <= failure / (4 * clusters)


def test_the_vectors_in_the_proof_of_lemma_5(rng):
    """(H.3) is orthogonal to μ_k alone; the norm of (H.7) is √(1 - (c_k - c_l)²/2)."""
    w = unit(rng.standard_normal(6))
    mu, c = np.eye(6)[:3], w[:3]
    first = w - c[0] / (1 - c[0]) * (mu[0] - w)
    assert first @ mu[0] == pytest.approx(0, abs=1e-12)
    assert abs(first @ mu[1]) > 0.01
    second = w - (c[0] - c[1]) / 2 * (mu[0] - mu[1])
    assert second @ second == pytest.approx(1 - (c[0] - c[1]) ** 2 / 2)


def test_the_steps_of_proposition_3():
    """Norms add and not their squares; what the proof needs of them is left; the tail at 0.293 is the larger one."""
    longest = math.sqrt(17 / 2) + math.sqrt(2) / 2
    assert longest**2 > 9
    assert 4 * math.sqrt(2) - longest == pytest.approx(2.03, abs=0.01)
    assert 4 * math.sqrt(2) - longest >= math.sqrt(2)
    assert norm.sf(0.293 * 5) > norm.sf(2 / 5 * 5)  # α/√D = 1/5
    assert math.exp(-(0.293**2) / 2) == pytest.approx(math.exp(-0.043), rel=1e-3)


def test_the_printed_nudge_turns_a_start_by_hardly_anything(rng):
    """w + δ(μ - w) with entries N(0, 1) is turned by at most about δ/((1-δ)√D)."""
    dim, delta = 1000, 0.05
    for w in rng.standard_normal((20, dim)):
        nudged = (1 - delta) * w + delta * np.eye(dim)[0]
        angle = math.acos(min(1.0, unit(w) @ unit(nudged)))
        assert angle <= delta / ((1 - delta) * np.linalg.norm(w)) * (1 + 1e-6)
    assert delta / ((1 - delta) * math.sqrt(dim)) == pytest.approx(0.0017, abs=1e-4)


# double-edged


def test_the_argument_of_lemma_d_2_gives_three_halves():
    """1/(1 - 2c') · (d + Δ + 1)/(d - Δ + 1) + c'/(1 - 2c') at the edge c' = 1/10, Δ = d/21, for large d."""
    d, c = 1e12, 0.1
    spread = d / 21
    value = (d + spread + 1) / (d - spread + 1) / (1 - 2 * c) + c / (1 - 2 * c)
    assert value == pytest.approx(3 / 2)


def test_the_edge_of_lemmas_a_10_and_a_11():
    """0.287/d and 1.3125/d at c' = 1/10 and Δ = d/21."""
    d, c = 1e12, 0.1
    spread = d / 21
    assert d * (1 - c / (1 - 2 * c)) / (3 * d + spread + 1) == pytest.approx(0.287, abs=1e-3)
    assert d / ((1 - 2 * c) * (d - spread + 1)) == pytest.approx(1.3125)


def test_lowering_the_inputs_of_negative_neurons_raises_the_output(rng):
    """Lemma D.8 (i): Σ v_j [z_j]₊ over neurons with v_j < 0 is at least as large, not equal, where the z_j have fallen."""
    v, z, fall = -rng.random(50), rng.standard_normal(50), rng.random(50)
    assert v @ np.maximum(z - fall, 0) > v @ np.maximum(z, 0)


def test_products_within_a_cluster(rng):
    """(P5): ⟨x_i, x_j⟩ of two points is near d; only ⟨x_i, x_i⟩ has the ‖ξ‖² that 3d makes room for."""
    d = 4000
    mu = math.sqrt(d) * unit(rng.standard_normal(d))
    x = mu + rng.standard_normal((6, d))
    gram = x @ x.T / d
    assert np.abs(gram[~np.eye(6, dtype=bool)] - 1).max() < 0.1
    assert np.abs(np.diag(gram) - 2).max() < 0.2


# feature-averaging


def test_norms_concentrate_with_the_probability_that_13_gives_to_the_opposite():
    """(13): √d ± 2 ln d holds the norm of the noise except with probability 2d^(-ln d)."""
    for d in (10, 100, 3072):
        width = 2 * math.log(d)
        outside = chi.sf(math.sqrt(d) + width, d) + chi.cdf(math.sqrt(d) - width, d)
        assert outside <= 2 * d ** -math.log(d)


def test_the_attack_in_the_proof_of_theorem_d_4(rng):
    """For j in J₋ and a point of J₊ the product is at least -(k+1)Δ + 3(1+c)d(1+|J₋|)/k, with the sum over J₋."""
    d, k, negative, c = 400, 10, 5, 1.0
    mu = math.sqrt(d) * np.linalg.qr(rng.standard_normal((d, k)))[0].T
    signs = np.repeat([1.0, -1.0], [k - negative, negative])
    rho = 3 * (1 + c) / k * (signs @ mu)
    noise = rng.standard_normal(d)
    spread = np.abs(mu @ noise).max()  # Δ
    x = mu[0] + noise
    for j in np.flatnonzero(signs < 0):
        exact = (mu[j] + mu[signs < 0].sum(axis=0)) @ (x - rho)
        assert exact >= -(k + 1) * spread + 3 * (1 + c) * d * (1 + negative) / k
    own = (mu[1] + mu[signs > 0].sum(axis=0)) @ (x - rho)
    assert own < 0


# feature-amplification


def test_the_tail_of_a_norm_needs_u_of_one_and_more():
    """Pr(‖z‖ ≥ cu√d) ≤ exp(-cu√d) is false for small u, at which the left side is 1."""
    d, c = 50, 2.0
    for u, holds in ((0.1, False), (1.0, True), (2.0, True)):
        assert bool(chi.sf(c * u * math.sqrt(d), d) <= math.exp(-c * u * math.sqrt(d))) is holds


def test_constants_of_the_proof_of_theorem_3_1():
    """(14): 1 + 1/√3 exceeds √2, and C ≥ 2.5√C₁ repairs it; (49): αT = α + 1/4 for T = 1 + 1/(4α)."""
    assert 1 + 1 / math.sqrt(3) > math.sqrt(2)
    for c1 in (1.0, 10.0):
        assert math.sqrt(c1 / (2.5 * math.sqrt(c1)) ** 2) <= math.sqrt(2) - 1
    for alpha in (0.01, 0.25):
        assert alpha * (1 + 1 / (4 * alpha)) == pytest.approx(alpha + 1 / 4)


def test_flipped_points_of_a_cluster_lie_at_its_centre(rng):
    """(18): ⟨x, μ₁⟩ of the cluster's own points is near 1, not of size σ√d, whatever their labels."""
    d, width = 1000, 1 / 16  # σ√d
    products = 1 + width / math.sqrt(d) * rng.standard_normal((500, d)) @ np.eye(d)[0]
    assert products.min() > 0.9


# the pages


@cache
def names_of_tests() -> frozenset[str]:
    files = list(TESTS.rglob("test_*.py"))
    inside = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))}
    return frozenset(inside | {file.stem for file in files})


def rows_of(page: str) -> list[list[str]]:
    """The cells of every row of every table, the heads left out."""
    lines = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [i for i, cells in enumerate(table) if set("".join(cells)) <= set("-")]
    return [cells for i, cells in enumerate(table) if i not in rules and i + 1 not in rules]


def is_known(name: str, paper: str) -> bool:
    """A claim or item of the paper, a premise of its modules, a test, or a public name of its modules or of the library."""
    experiments = all_papers()[paper].experiments
    package = f"featureprism.papers.{paper.replace('-', '_')}"
    if name in names_of_tests() or any(name == e.item for e in experiments):
        return True
    if any(name == e.claim_id(claim) for e in experiments for claim in e.claims):
        return True
    module, _, attribute = name.rpartition(".")
    for root in (package, "featureprism"):
        try:
            return bool(attrgetter(attribute)(import_module(f"{root}.{module}")))
        except (ImportError, AttributeError):
            continue
    folder = Path(str(import_module(package).__file__)).parent
    return any(f'"{name}"' in file.read_text("utf-8") for file in folder.glob("*.py"))


@pytest.mark.parametrize("paper", ["gmm-flow", "double-edged", "feature-averaging", "feature-amplification"])
def test_every_row_of_an_errata_page_says_where_to_check_it(paper):
    rows = rows_of(f"errata_{paper.replace('-', '_')}.md")
    assert len(rows) > 10
    for cells in rows:
        item, names = "", re.findall(r"`([^`]+)`", cells[-1])
        assert names, cells[0]
        for name in names:
            full = item + name if name.startswith(".") else name
            item = full.partition(".")[0]
            assert is_known(full, paper) or full.startswith("lemma-4.3-"), (cells[0], full)
