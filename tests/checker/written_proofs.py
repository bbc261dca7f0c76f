"""Proof files of small models as users write them, and mutants of them."""

import io
import math
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from small_models import Question, question

import featureprism as fp
from featureprism.models import read_model
from featureprism.networks import PolynomialReLU, PowerReLU, TwoLayerNet

Arrays = dict[str, np.ndarray]
LINKS = (
    "node_below",
    "node_above",
    "node_cut",
    "node_first",
    "node_width",
    "proof_root",
    "proof_first",
    "proof_width",
)
INDICES = ("proof_point", "proof_target", "label", "proof_votes", "votes_first", "votes_width", "votes_scale")
REALS = ("numbers", "node_value", "proof_radius", "proof_reach", "certified", "margin", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Written:
    """A question, the contents of its files, and the arrays of the proof file."""

    question: Question
    proofs: bytes
    model: bytes
    points: bytes
    arrays: Arrays

    def fast(self, proofs: bytes, folder: Path) -> list[float] | None:
        """Verified radii by the fast checker, None if it does not accept."""
        q, path = self.question, folder / "mutant.npz"
        path.write_bytes(proofs)
        try:
            result = fp.check(path, q.net, q.x, q.labels, norm=q.norm, bounds=q.domain)
        except ValueError:
            return None
        return result.verified.tolist() if result else None

    def refuted(self, arrays: Arrays) -> bool:
        """Whether a claim of a file is false by a witness of the search, in exact arithmetic."""
        witness = self.arrays["witness"]
        word = '"norm": 2' if self.question.norm == 2 else '"norm": "inf"'
        if arrays["certified"].shape != self.arrays["certified"].shape or word not in str(arrays["header"]):
            return False  # it claims nothing, or something about another norm than the witness
        for i, claimed in enumerate(arrays["certified"].tolist()):
            if not claimed > 0 or not np.isfinite([*witness[i], self.arrays["attacked"][i]]).all():
                continue
            delta = [Fraction(float(t)) for t in witness[i]]
            if self.question.norm == 2:
                shorter = claimed == math.inf or sum(t * t for t in delta) < Fraction(claimed) ** 2
            else:
                shorter = claimed == math.inf or max(map(abs, delta)) < Fraction(claimed)
            point = [Fraction(float(s)) + t for s, t in zip(self.question.x[i].tolist(), delta, strict=True)]
            inside = self.question.domain is None or all(
                Fraction(self.question.domain[0]) <= t <= Fraction(self.question.domain[1]) for t in point
            )
            if shorter and inside and flips(self.model, int(self.arrays["label"][i]), point):
                return True
        return False


def flips(model: bytes, label: int, point: list[Fraction]) -> bool:
    """Whether another class scores at least as much, without a rounding; False where a power is no integer."""
    arrays = dict(np.load(io.BytesIO(model)))
    word, p = str(arrays["activation"]), float(arrays.get("p", 1.0))
    if p != int(p) or (word == "prelu" and p != 1) or word == "tanh":
        return False

    def rows(name: str) -> list[Any]:
        return [[Fraction(t) for t in row] for row in np.atleast_2d(arrays[name]).tolist()]

    def affine(W: list[Any], b: list[Fraction], x: list[Fraction]) -> list[Fraction]:
        return [sum((s * t for s, t in zip(w, x, strict=True)), c) for w, c in zip(W, b, strict=True)]

    if word == "linear":
        scores = affine(rows("V"), rows("c")[0], point)
    elif word == "quadratic":
        scores = affine(rows("V"), rows("c")[0], point)
        for r, A in enumerate(arrays["A"].tolist()):
            Ax = affine([[Fraction(t) for t in row] for row in A], [Fraction(0)] * len(point), point)
            scores[r] -= sum(s * t for s, t in zip(Ax, point, strict=True)) / 2
    elif "W1" in arrays:
        scores, k = point, 1
        while f"W{k}" in arrays:
            scores = affine(
                rows(f"W{k}"), rows(f"b{k}")[0], scores if k == 1 else [max(t, Fraction(0)) for t in scores]
            )
            k += 1
    else:
        W = rows("W")
        t = affine(W, rows("b")[0] if "b" in arrays else [Fraction(0)] * len(W), point)
        h = [max(s, Fraction(0)) ** int(p) for s in t]
        if "V" in arrays:
            scores = affine([list(c) for c in zip(*rows("V"), strict=True)], rows("c")[0], h)
        else:
            scores = [Fraction(0), sum((a * s for a, s in zip(rows("a")[0], h, strict=True)), Fraction(0))]
    return max(s for r, s in enumerate(scores) if r != label) >= scores[label]


def written(seed: int, folder: Path, max_cells: int = 40) -> Written | None:
    """The proof file of a seed's question; None for models that no file can hold."""
    q = question(seed)
    if q.kind == "read_out":
        return None
    if isinstance(q.net, TwoLayerNet):
        words = {PowerReLU: "polynomial", PolynomialReLU: "prelu"}
        net = q.net
        arrays = {k: getattr(net, k).detach().numpy() for k in "Wab" if getattr(net, k) is not None}
        p = np.array(float(getattr(net.activation, "p", 1.0)))
        np.savez(
            folder / "model.npz", activation=np.array(words.get(type(net.activation), "relu")), p=p, **arrays
        )
    else:
        try:
            saved = read_model(q.net).save(folder / "model.npz")
        except ValueError:
            return None
        if not saved:
            return None
    bracket = fp.robust_radius(
        q.net, q.x, q.labels, norm=q.norm, bounds=q.domain, budget=fp.Budget(branches=max_cells)
    )
    bracket.save(folder / "proofs.npz")
    np.savez(folder / "points.npz", x=q.x.numpy(), y=q.labels.numpy())
    contents = [(folder / f"{name}.npz").read_bytes() for name in ("proofs", "model", "points")]
    with np.load(folder / "proofs.npz") as file:
        return Written(q, *contents, dict(file))


def packed(arrays: Arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)  # pyright: ignore[reportArgumentType]
    return content.getvalue()


def mutant(original: Arrays, rng: np.random.Generator) -> tuple[str, bytes, Arrays]:
    """One to three changes of a file's arrays, or of its bytes."""
    arrays = {name: a.copy() for name, a in original.items()}
    words = []
    for _ in range(int(rng.integers(1, 4))):
        change = MUTATIONS[rng.integers(len(MUTATIONS))]
        with (
            np.errstate(all="ignore"),
            suppress(IndexError, TypeError, ValueError),
        ):  # after another shape or type
            change(arrays, rng)
        words.append(change.__name__)
    content = packed(arrays)
    if rng.random() < 0.04:
        words.append("bytes")
        if rng.integers(2):
            content = content[: int(rng.integers(len(content)))]
        else:
            spot = int(rng.integers(len(content)))
            content = (
                content[:spot] + bytes([content[spot] ^ (1 << int(rng.integers(8)))]) + content[spot + 1 :]
            )
    return " and ".join(words), content, arrays


def _some(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mask of one entry, of a few, or of all."""
    mask = rng.random(a.shape) < rng.choice([0.1, 0.5, 1.0])
    if a.size and rng.integers(2):
        mask[...] = False
        mask.flat[rng.integers(a.size)] = True
    return mask


def radii_up(arrays: Arrays, rng: np.random.Generator) -> None:
    """Claims a little or much larger, with a reach that still covers them."""
    factor = 1 + 10.0 ** rng.uniform(-13, 0.5)
    for name in ("certified", "proof_radius"):
        arrays[name] = arrays[name] * factor
    regions = arrays["proof_reach"] > 0
    arrays["proof_reach"] = np.where(regions, np.maximum(arrays["proof_reach"], arrays["proof_radius"]), 0.0)


def radii_alone(arrays: Arrays, rng: np.random.Generator) -> None:
    name = str(rng.choice(["certified", "proof_radius", "proof_reach"]))
    arrays[name] = np.where(_some(arrays[name], rng), arrays[name] * 2.0 ** rng.normal(), arrays[name])


def parameters(arrays: Arrays, rng: np.random.Generator) -> None:
    """Multipliers, bounds, lines and votes scaled, exchanged, shifted, turned around, rounded or gone."""
    a = arrays["numbers"]
    other = (
        a * 2.0 ** rng.normal(size=a.shape),
        a * (1 + 1e-12 * rng.normal(size=a.shape)),
        a * 10.0 ** (3 * rng.normal()),
        rng.permutation(a),
        a + 0.1 * rng.normal(size=a.shape),
        -a,
        0 * a,
        np.float64(np.float32(a)),
        np.where(rng.random(a.shape) < 0.5, 1e300, -1e300),
    )[rng.integers(9)]
    arrays["numbers"] = np.where(_some(a, rng), other, a)


def bounds_narrower(arrays: Arrays, rng: np.random.Generator) -> None:
    """Two blocks of a leaf drawn together, as if neurons moved less."""
    leaves = np.flatnonzero(arrays["node_cut"] < 0)
    if len(leaves) == 0:
        return
    leaf = rng.choice(leaves)
    first, width = int(arrays["node_first"][leaf]), int(arrays["node_width"][leaf])
    for blocks in (5, 7):
        n = (width - 1) // blocks
        if n > 0 and (width - 1) % blocks == 0:
            low, high = slice(first + 1, first + 1 + n), slice(first + 1 + n, first + 1 + 2 * n)
            step = 10.0 ** rng.uniform(-13, -1) * (arrays["numbers"][high] - arrays["numbers"][low])
            arrays["numbers"][low] += step
            arrays["numbers"][high] -= step
            return


def room_changed(arrays: Arrays, rng: np.random.Generator) -> None:
    for name, side in (("lower", -1), ("upper", 1)):
        if rng.integers(2):
            arrays[name] = arrays[name] + side * rng.choice([-0.5, 1e-9, 0.5, np.inf])


def links(arrays: Arrays, rng: np.random.Generator) -> None:
    name = str(rng.choice(LINKS))
    a = arrays[name]
    if a.size:
        a.flat[rng.integers(a.size)] += int(rng.choice([-2, -1, 1, 2, 10**9, -(10**12)]))


def branches_exchanged(arrays: Arrays, rng: np.random.Generator) -> None:
    cuts = np.flatnonzero(arrays["node_cut"] >= 0)
    if len(cuts):
        i = rng.choice(cuts)
        below, above = arrays["node_below"], arrays["node_above"]
        if rng.integers(2):
            below[i], above[i] = above[i], below[i]
        else:
            above[i] = below[i]


def cuts_elsewhere(arrays: Arrays, rng: np.random.Generator) -> None:
    a = arrays["node_value"]
    arrays["node_value"] = np.where(
        _some(a, rng), a + 10.0 ** rng.uniform(-9, 0) * rng.normal(size=a.shape), a
    )


def indices(arrays: Arrays, rng: np.random.Generator) -> None:
    a = arrays[str(rng.choice(INDICES))]
    if a.size:
        a.flat[rng.integers(a.size)] += int(rng.choice([-1, 1, 3]))


def kinds(arrays: Arrays, rng: np.random.Generator) -> None:
    words = [
        "closed form",
        "lipschitz",
        "crown",
        "lines",
        "cells",
        "ellipsoid",
        "deep",
        "norm product",
        "balls",
        "faith",
    ]
    a = arrays["proof_kind"]
    if a.size:
        a.flat[rng.integers(a.size)] = str(rng.choice(words))


def not_numbers(arrays: Arrays, rng: np.random.Generator) -> None:
    a = arrays[str(rng.choice(REALS))]
    if a.size:
        a.flat[rng.integers(a.size)] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308])


def other_shape(arrays: Arrays, rng: np.random.Generator) -> None:
    name = str(rng.choice([*LINKS, *INDICES, *REALS, "proof_kind", "header"]))
    a = arrays[name]
    change = rng.integers(5)
    if change == 0:
        del arrays[name]
        arrays.setdefault(name, a[:-1] if a.ndim else a)
    elif change == 1:
        arrays[name] = a[None]
    elif change == 2 and a.dtype.kind in "if":
        arrays[name] = a.astype(rng.choice(["<f4", "<i4", ">f8", "<f8", "<i8", "|b1"]))
    elif change == 3 and a.ndim:
        arrays[name] = np.concatenate([a, a[:1]])
    elif change == 4:
        arrays[name] = np.zeros(())


def votes(arrays: Arrays, rng: np.random.Generator) -> None:
    """Votes a little larger, or their scale changed."""
    if arrays["votes_first"].size == 0:
        return
    if rng.integers(2):
        arrays["votes_scale"] = arrays["votes_scale"] + int(rng.choice([-1, 1, 100, 20_000]))
        return
    q = int(rng.integers(arrays["votes_first"].size))
    first, width = int(arrays["votes_first"][q]), int(arrays["votes_width"][q])
    arrays["numbers"][first : first + width] += 10.0 ** rng.uniform(-17, 0) * rng.normal(size=width)


def margins(arrays: Arrays, rng: np.random.Generator) -> None:
    arrays["margin"] = arrays["margin"] + 10.0 ** rng.uniform(-12, 1)


def header(arrays: Arrays, rng: np.random.Generator) -> None:
    old, new = (
        ('"version": 2', '"version": 3'),
        ("featureprism proof", "proof"),
        ('"norm": 2', '"norm": "inf"'),
        ('"norm": "inf"', '"norm": 2'),
        ('"classes": null', '"classes": 3'),
        ('"sha256": "', '"sha256": "0'),
        ('"arithmetic": "real"', '"arithmetic": "float32"'),
        ('"eps": null', '"eps": 0.5'),
        ("{", "["),
    )[rng.integers(9)]
    arrays["header"] = (
        np.array(str(arrays["header"]).replace(old, new, 1))
        if arrays["header"].ndim == 0
        else arrays["header"]
    )


MUTATIONS = (
    radii_up, radii_up, radii_up, radii_alone, parameters, parameters, parameters, bounds_narrower, bounds_narrower, room_changed,
    links, branches_exchanged, cuts_elsewhere, indices, kinds, not_numbers, other_shape, votes, votes, margins, header,
)  # fmt: skip
