"""The exact checker: against arithmetic done by hand, and against the fast checker on files as users write them."""

import io
import json
import math
import zipfile
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from written_proofs import Arrays, Written, mutant, packed, written

from featureprism.checker import exact
from featureprism.cli import main

EVERY_KIND = (
    2,
    10,
    13,
    14,
    16,
    17,
    19,
    20,
    23,
    33,
    41,
    53,
    61,
    66,
)  # seeds whose files have proofs of all kinds but lipschitz
SEEDS = 200  # of the long comparison
MUTANTS = 40  # of each file
DIGITS = 100


def by_hand(norm: object = 2, radius: float = 4.0) -> tuple[bytes, bytes, bytes]:
    """The linear example of docs/proof_format.md."""
    V, c = np.array([[2.0, 1.0], [-1.0, -3.0]]), np.array([0.0, 5.0])
    return with_proof(
        "closed form", norm, radius, {"activation": np.array("linear"), "V": V, "c": c}, label=0
    )


def with_proof(
    kind: str,
    norm: object,
    radius: float,
    weights: Arrays,
    label: int,
    numbers: tuple[float, ...] = (),
    scale: int = 0,
) -> tuple[bytes, bytes, bytes]:
    """A file with one proof about the point (3, 4), without a tree; the numbers are its votes."""
    model, points = packed(weights), packed({"x": np.array([[3.0, 4.0]]), "y": np.array([label])})
    header = {
        "format": "featureprism proof",
        "version": 2,
        "norm": norm,
        "eps": None,
        "classes": None,
        "arithmetic": "real",
        "model": {
            "sha256": exact.read_model(model).sha256(),
            "source": "",
            "source_sha256": None,
            "reader": "",
        },
        "points": {"sha256": exact.read_points(points, None, 2).sha256()},
    }
    votes = {"votes_first": [0], "votes_width": [len(numbers)], "votes_scale": [scale]}
    whole = {name: value if numbers else [] for name, value in votes.items()}
    whole |= {f"node_{name}": [] for name in ("cut", "below", "above", "first", "width")}
    whole |= {"label": [label], "proof_point": [0], "proof_target": [1 - label], "proof_root": [-1]}
    whole |= {"proof_first": [0], "proof_width": [0], "proof_votes": [0 if numbers else -1]}
    real = {"certified": [radius], "margin": [0.0], "lower": [-math.inf] * 2, "upper": [math.inf] * 2}
    real |= {"proof_radius": [radius], "proof_reach": [0.0], "node_value": [], "numbers": numbers}
    arrays = {name: np.array(value, dtype="<i8") for name, value in whole.items()}
    arrays |= {name: np.array(value, dtype="<f8") for name, value in real.items()}
    arrays |= {"header": np.array(json.dumps(header)), "proof_kind": np.array([kind])}
    return packed(arrays), model, points


@pytest.mark.parametrize(
    ("norm", "radius", "verified"),
    [
        (2, 4.0, 4.0),
        (2, math.nextafter(4.0, 5.0), 0.0),
        ("inf", 2.8571428571428568, 2.8571428571428568),
        ("inf", 2.857142857142857, 0.0),
        (2, math.inf, 0.0),
    ],
)
def test_the_example_of_the_specification(norm, radius, verified):
    assert exact.verify(*by_hand(norm, radius)) == [verified]


def test_a_lipschitz_proof_by_hand():
    """f = [x_1]₊ + [x_2]₊ - ½[x_1 - 2x_2]₊ is 7 at (3, 4), and its gradient is at most ‖(1, 2)‖ long, or that of other halves."""
    weights = {"activation": np.array("relu"), "W": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -2.0]])}
    weights["a"] = np.array([1.0, 1.0, -0.5])
    # ρ = (1, 1, 2): the scaled w are (½, 0), (0, ½), (¼, -½), the votes a_j 2^(ρ_j - E) = (1, 1, -1) with E = 1
    # L² = ¼ + ¼ + 5/16 + 2·¼ (neurons 2 and 3) = 21/16; S = 7/2 2^-ℓ: radius ≤ 3.5/√(21/16) = 3.0550…
    inside, outside = (
        with_proof("lipschitz", 2, radius, weights, label=1, numbers=(1.0, 1.0, -1.0), scale=1)
        for radius in (3.055, 3.0551)
    )
    assert exact.verify(*inside) == [3.055]
    assert exact.verify(*outside) == [0.0]
    wider = with_proof("lipschitz", 2, 3.0, weights, label=1, numbers=(1.0, 1.0 + 1e-15, -1.0), scale=1)
    assert exact.verify(*wider) == [0.0]  # a vote above the weight


def test_powers_and_tanh_are_enclosed_to_more_than_128_bits():
    rng = np.random.default_rng(3)
    with localcontext() as context:
        context.prec = DIGITS
        for _ in range(200):
            x, y = (float(t) for t in np.exp2(rng.uniform(-40, 40, 2)))
            y = min(y, 64.0) * (-1) ** int(rng.integers(2))
            low, high = (exact.power(Fraction(x), Fraction(y), up) for up in (False, True))
            between(low, high, (Decimal(x).ln() * Decimal(y)).exp())
            t = float(rng.normal() * 10.0 ** rng.uniform(-15, 2))
            low, high = (exact.tanh(Fraction(t), up) for up in (False, True))
            square = (2 * Decimal(t)).exp()
            between(low, high, (square - 1) / (square + 1))
            low, high = (exact.root(Fraction(x), up) for up in (False, True))
            assert low**2 <= Fraction(x) <= high**2


def between(low: Fraction, high: Fraction, truth: Decimal) -> None:
    digits = abs(Fraction(truth)) * Fraction(
        1, 10 ** (DIGITS - 30)
    )  # cancellation in (e - 1)/(e + 1) costs up to 16
    assert low - digits <= Fraction(truth) <= high + digits
    assert high - low <= abs(Fraction(truth)) / 2**128


def test_positive_forms_are_those_with_positive_pivots():
    rng = np.random.default_rng(1)
    seen = Counter()
    for _ in range(600):
        n, rank = int(rng.integers(1, 6)), int(rng.integers(1, 7))
        G = rng.integers(-3, 4, size=(n, rank))
        M = G @ G.T + int(rng.integers(-1, 2)) * np.eye(n, dtype=int)
        form = [[int(t) * 2**300 for t in row[: i + 1]] for i, row in enumerate(M)]
        for strict in (True, False):
            expected = pivots_are_positive([[Fraction(int(t)) for t in row] for row in M], strict)
            assert exact.positive(form, strict) == expected
            seen[strict, expected] += 1
    assert min(seen.values()) > 50


def pivots_are_positive(M: list[list[Fraction]], strict: bool) -> bool:
    """Elimination with fractions; a pivot may be 0 only where its row is."""
    while len(M) > 1:
        pivot, row = M[0][0], M[0]
        if pivot < 0 or (pivot == 0 and any(row)):
            return False
        M = [
            [t - (r[0] * u / pivot if pivot else 0) for t, u in zip(r[1:], row[1:], strict=True)]
            for r in M[1:]
        ]
    return M[0][0] > 0 or (M[0][0] == 0 and not strict)


def test_a_nearly_singular_form_is_decided_exactly():
    big = 10**100  # far beyond 256 bits of room
    assert exact.positive([[big], [1, 1]])
    assert exact.positive([[big * big], [big, 1]], strict=False)
    assert not exact.positive([[big * big], [big, 1]])
    assert exact.positive([[big * big], [big, 1], [big * big, big, big * big]], strict=False)
    assert not exact.positive([[big * big - 1], [big, 1]], strict=False)


def test_what_the_fast_checker_accepts_the_exact_one_accepts(tmp_path: Path):
    seen = Counter()
    for seed in EVERY_KIND:
        file = written(seed, tmp_path, max_cells=10)
        assert file is not None
        compare(file, file.proofs, file.arrays, tmp_path, seen)
        seen.update(file.arrays["proof_kind"].tolist())
        assert exact.estimate(file.proofs, file.model) > 0
    assert seen["fast"] == seen["exact"] == len(EVERY_KIND)
    elsewhere = (
        "lipschitz",
        "balls",
        "norm product",
    )  # the last two: tests/verify/test_balls.py, both checkers
    assert all(seen[kind] for kind in exact.KINDS if kind not in elsewhere)


def outcome(proofs: bytes, model: bytes, points: bytes) -> tuple[list[float], str | None]:
    """Verified radii, or the sentence of the refusal."""
    try:
        return exact.verify(proofs, model, points), None
    except ValueError as error:
        return [], str(error)


def compare(file: Written, content: bytes, arrays: Arrays, folder: Path, seen: Counter) -> None:
    """The exact checker accepts what the fast one does, at every point, and neither what a witness refutes."""
    fast = file.fast(content, folder)
    radii, refusal = outcome(content, file.model, file.points)
    assert refusal is None or ("\n" not in refusal and refusal.endswith("."))
    accepted = refusal is None and all(
        r >= c for r, c in zip(radii, arrays["certified"].tolist(), strict=True)
    )
    seen.update(["files"] + ["fast"] * (fast is not None) + ["exact"] * accepted)
    if fast is not None:
        assert accepted
        assert all(f <= e for f, e in zip(fast, radii, strict=True))
    if file.refuted(arrays) and accepted:
        # a file that is accepted may be about narrower bounds than those of the witness
        lower, upper = arrays["lower"].max(), arrays["upper"].min()
        assert file.question.domain is None or fast is None
        assert file.question.domain is not None or lower > -math.inf or upper < math.inf
    seen["refuted"] += file.refuted(arrays)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_mutants(part, tmp_path: Path):
    """Of seven thousand files and mutants none is accepted by the fast checker alone."""
    seen, rng = Counter(), np.random.default_rng((part, 9))
    for seed in range(1000 + part, 1000 + SEEDS, 8):
        file = written(seed, tmp_path)
        if file is None:
            continue
        compare(file, file.proofs, file.arrays, tmp_path, seen)
        for _ in range(MUTANTS):
            words, content, arrays = mutant(file.arrays, rng)
            try:
                compare(file, content, arrays, tmp_path, seen)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {words}") from error
    print(dict(seen))
    assert seen["files"] > 600
    assert seen["refuted"] > 5


def broken(name: str) -> bytes:
    """Archives that are no proof files."""
    good = by_hand()[0]
    content = io.BytesIO()
    with (
        zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive,
        zipfile.ZipFile(io.BytesIO(good)) as old,
    ):
        for member in old.namelist():
            data = old.read(member)
            if member == "numbers.npy":
                start = 10 + int.from_bytes(data[8:10], "little")
                header, rest = data[10:start], data[start:]
                text = {
                    "object": header.replace(b"'<f8'", b"'|O' "),
                    "absurd shape": header.replace(b"(0,)", b"(99999999999,)"),
                    "nested": b"(" * 5000,
                    "code": b"__import__('os').abort()",
                }.get(name, header)
                data = data[:8] + len(text).to_bytes(2, "little") + text + rest
                data = data + bytes(2**24) if name == "bomb" else data
            archive.writestr(member, data)
    return content.getvalue()


@pytest.mark.parametrize("name", ["object", "absurd shape", "nested", "code", "bomb"])
def test_archives_that_are_refused(name):
    _, model, points = by_hand()
    with pytest.raises(ValueError, match=r"^The array numbers [^\n]*\.$"):
        exact.verify(broken(name), model, points)


def test_every_truncation_and_every_byte_changed_is_refused_or_verified():
    proofs, model, points = by_hand()
    rng = np.random.default_rng(0)
    for spot in rng.integers(len(proofs), size=400).tolist():
        for content in (proofs[:spot], proofs[:spot] + bytes([proofs[spot] ^ 255]) + proofs[spot + 1 :]):
            radii, refusal = outcome(content, model, points)
            assert radii in ([4.0], [0.0]) if refusal is None else refusal.endswith(".")


def test_other_models_and_points_are_refused():
    proofs, model, points = by_hand()
    other = packed({"activation": np.array("linear"), "V": np.eye(2), "c": np.zeros(2)})
    with pytest.raises(ValueError, match=r"another model"):
        exact.verify(proofs, other, points)
    with pytest.raises(ValueError, match=r"other points"):
        exact.verify(proofs, model, packed({"x": np.array([[3.0, 5.0]]), "y": np.array([0])}))
    with pytest.raises(ValueError, match=r"other points"):
        exact.verify(proofs, model, packed({"x": np.array([[3.0, 4.0]]), "y": np.array([1])}))
    fortran = np.asfortranarray(np.array([[2.0, 1.0], [-1.0, -3.0]]).astype(">f4"))
    same = packed({"activation": np.array("linear"), "V": fortran, "c": np.array([0, 5], dtype="<u2")})
    assert exact.verify(proofs, same, points) == [4.0]


def test_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    paths = [str(tmp_path / f"{name}.npz") for name in ("proofs", "model", "points")]
    for path, content in zip(paths, by_hand(), strict=True):
        Path(path).write_bytes(content)
    assert main(["check", *paths, "--exact"]) == 0
    assert "1 of 1 points" in capsys.readouterr().out
    monkeypatch.setattr(exact, "MOST_WORK", 1.0)
    assert main(["check", *paths, "--exact"]) == 3
    assert "multiplications, more than its limit" in capsys.readouterr().out


def test_it_needs_the_standard_library_alone():
    source = Path(exact.__file__).read_text()
    imported = {
        line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))
    }
    assert not imported & {"numpy", "featureprism", "torch", "scipy"}
