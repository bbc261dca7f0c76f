"""The exact checker for proofs of properties: rational arithmetic, written from docs/proof_format.md ("Properties").

It shares no code with the fast checker but the reading of arrays and of properties. Bounds of neurons are exact rationals; those that
the checker computes alone are rounded outwards to doubles, which keeps numbers short.
"""

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from featureprism.checker.arrays import arrays_of
from featureprism.checker.vnnlib import Case, Property

MOST_WORK = 2e8  # multiplications: about ten minutes
MAX_NODES = 10_000_000
ZERO, ONE = Fraction(0), Fraction(1)
COLUMNS = (
    "case_root",
    "node_cut",
    "node_value",
    "node_below",
    "node_above",
    "node_domain",
    "node_first",
    "node_width",
    "domain_case",
    "domain_parent",
    "domain_first",
    "domain_width",
    "numbers",
)

Numbers = list[Fraction]
Matrix = list[list[Fraction]]
Interval = tuple[Numbers, Numbers]


class Refused(ValueError):  # noqa: N818
    """What is not proven, or malformed."""


def estimate(content: bytes, weights: Sequence[Any]) -> float:
    """About how many multiplications `verify` needs: all bounds of all neurons for every leaf without numbers and every domain."""
    found = _columns(content)
    widths = [len(W) for W in weights[:-1]]
    sizes = [W.size for W in weights]
    every = sum(2 * widths[k] * sum(sizes[: k + 1]) for k in range(len(widths)))
    plain = sum(
        1 for cut, domain in zip(found["node_cut"], found["node_domain"], strict=True) if cut == domain == -1
    )
    leaves = sum(1 for cut in found["node_cut"] if cut == -1)
    return float((plain + 2 * len(found["domain_case"])) * every + 5 * leaves * sum(sizes))


def verify(content: bytes, weights: Sequence[Any], biases: Sequence[Any], prop: Property) -> int:
    """The number of leaves, all of them proven; a ValueError, with one sentence, otherwise."""
    return _Check(_columns(content), weights, biases, prop).run()


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise Refused(sentence)


def _columns(content: bytes) -> dict[str, list]:
    arrays = arrays_of(content, "the proof file")
    try:
        header = json.loads(str(arrays["header"]))
        _require(
            header["format"] == "featureprism property proof" and header["version"] == 1, "another format"
        )
        found = {name: arrays[name].tolist() for name in COLUMNS}
        found["hashes"] = [header["model"]["sha256"], header["property"]["sha256"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused(f"a proof of a property lacks {error}") from error
    for name in COLUMNS:
        wanted = "f" if name in ("numbers", "node_value") else "i"
        _require(arrays[name].ndim == 1 and arrays[name].dtype.kind == wanted, f"{name} has another type")
    _require(all(map(math.isfinite, found["numbers"] + found["node_value"])), "numbers must be finite")
    for table in ("node", "domain"):
        _require(
            len({len(v) for name, v in found.items() if name.startswith(table)}) == 1,
            "columns differ in length",
        )
    _require(len(found["node_cut"]) <= MAX_NODES, "too many nodes")
    return found


class _Check:
    def __init__(
        self, columns: dict[str, list], weights: Sequence[Any], biases: Sequence[Any], prop: Property
    ) -> None:
        self.columns, self.prop = columns, prop
        self.W: list[Matrix] = [[[Fraction(v) for v in row] for row in W.tolist()] for W in weights]
        self.b: Matrix = [[Fraction(v) for v in b.tolist()] for b in biases]
        self.widths = [len(b) for b in self.b[:-1]]
        self.starts = [sum(self.widths[:k]) for k in range(len(self.widths) + 1)]
        self.domains: dict[int, tuple[dict[int, int], list[Interval] | None, int]] = {}
        _require(
            columns["hashes"] == [_model_hash(weights, biases), prop.sha256],
            "it is about another model or property",
        )
        _require(len(columns["case_root"]) == len(prop.cases), "one tree for each case is wanted")

    def run(self) -> int:
        c, d, H = self.columns, self.prop.num_inputs, self.starts[-1]
        seen: set[int] = set()
        count = 0
        for number, case in enumerate(self.prop.cases):
            box = [Fraction(v) for v in case.lower.tolist()], [Fraction(v) for v in case.upper.tolist()]
            waiting: list[tuple[int, Interval, dict[int, int], bool]] = [
                (c["case_root"][number], box, {}, True)
            ]
            while waiting:
                i, (lower, upper), cuts, is_whole = waiting.pop()
                _require(
                    0 <= i < len(c["node_cut"]) and i not in seen, "a node is not there or reached twice"
                )
                seen.add(i)
                at = c["node_cut"][i]
                if at == -1:
                    self.leaf(number, case, i, (lower, upper), cuts, is_whole)
                    count += 1
                    continue
                _require(0 <= at < d + H, "a cut is at no input and no neuron")
                below, above = c["node_below"][i], c["node_above"][i]
                if at < d:
                    value = Fraction(c["node_value"][i])
                    _require(not cuts and lower[at] <= value <= upper[at], "a cut at an input is misplaced")
                    less, more = list(upper), list(lower)
                    less[at] = more[at] = value
                    waiting += [(below, (lower, less), cuts, False), (above, (more, upper), cuts, False)]
                else:
                    _require(at - d not in cuts, "a neuron is cut twice")
                    waiting += [
                        (side, (lower, upper), cuts | {at - d: sign}, is_whole)
                        for side, sign in ((below, -1), (above, 1))
                    ]
        return count

    def block(self, table: str, i: int) -> Numbers:
        first, width = self.columns[f"{table}_first"][i], self.columns[f"{table}_width"][i]
        _require(
            first >= 0 and width >= 0 and first + width <= len(self.columns["numbers"]),
            "a slice is out of range",
        )
        return [Fraction(v) for v in self.columns["numbers"][first : first + width]]

    def leaf(
        self, number: int, case: Case, i: int, box: Interval, cuts: dict[int, int], is_whole: bool
    ) -> None:
        A = [[Fraction(v) for v in row] for row in case.A.tolist()]
        b = [Fraction(v) for v in case.b.tolist()]
        domain = self.columns["node_domain"][i]
        if domain == -1:
            _require(not cuts, "a leaf below a cut neuron has no domain")
            known = self.ruled_layers(box)
            rows = ([ONE if j == k else ZERO for k in range(len(b))] for j in range(len(b)))
            _require(
                any(self.combined(w, A, b, known, box, None, {}) > 0 for w in rows), "a box is not proven"
            )
            return
        _require(is_whole, "a leaf with a domain stands below a cut at an input")
        of_domain, bounds, its_case = self.domain(domain)
        _require(self.prop.cases[its_case].has_box_of(case), "a leaf has another box than its domain")
        _require(of_domain.items() <= cuts.items(), "a leaf lies outside of its domain")
        if bounds is None:
            return
        known = self.cut_layers(bounds, cuts)
        if any(low > high for part in known for low, high in zip(*part, strict=True)):
            return
        unstable, numbers = self.unstable(bounds), self.block("node", i)
        m = len(b)
        _require(len(numbers) == m + len(unstable) + len(cuts), "a leaf has another number of numbers")
        weights, stored, beta = numbers[:m], numbers[m : m + len(unstable)], numbers[m + len(unstable) :]
        _require(
            min(weights + beta, default=ZERO) >= 0 and all(0 <= s <= 1 for s in stored),
            "a multiplier is out of range",
        )
        slopes = dict(zip(unstable, stored, strict=True))
        pulls = {j: cuts[j] * v for j, v in zip(sorted(cuts), beta, strict=True)}
        _require(self.combined(weights, A, b, known, box, slopes, pulls) > 0, "a leaf is not proven")

    def combined(
        self,
        weights: Numbers,
        A: Matrix,
        b: Numbers,
        known: list[Interval],
        box: Interval,
        slopes: dict[int, Fraction] | None,
        pulls: dict[int, Fraction],
    ) -> Fraction:
        """A bound from below of Σ_j w_j (⟨A_j, y⟩ - b_j)."""
        g = [_dot(weights, column) for column in zip(*A, strict=True)] if A else [ZERO] * len(self.b[-1])
        value = _dot(g, self.b[-1]) - _dot(weights, b)
        return self.least(_product(g, self.W[-1]), value, known, box, slopes, pulls)

    def least(
        self,
        c: Numbers,
        value: Fraction,
        known: list[Interval],
        box: Interval,
        slopes: dict[int, Fraction] | None,
        pulls: dict[int, Fraction],
    ) -> Fraction:
        """A bound from below of ⟨c, h⟩ + value, h the last layer that is known."""
        for k in range(len(known) - 1, -1, -1):
            g = []
            for j, (factor, low, high) in enumerate(zip(c, *known[k], strict=True)):
                number = self.starts[k] + j
                if low >= 0:
                    slope = ONE
                elif high <= 0:
                    slope = ZERO
                elif factor < 0:
                    slope = min(max(Fraction(float(high) / (float(high) - float(low))), ZERO), ONE)
                    value += factor * max(-slope * low, high - slope * high)
                elif slopes is None:
                    slope = ONE if high > -low else ZERO
                else:
                    slope = slopes[number]
                g.append(factor * slope - pulls.get(number, ZERO))
            value += _dot(g, self.b[k])
            c = _product(g, self.W[k])
        return value + sum(
            (v * (low if v >= 0 else high) for v, low, high in zip(c, *box, strict=True)), ZERO
        )

    def ruled(self, known: list[Interval], box: Interval) -> Interval:
        """Bounds of the next layer by the rule, rounded outwards to doubles."""
        W, b = self.W[len(known)], self.b[len(known)]
        low = [
            _rounded(self.least(row, v, known, box, None, {}), -math.inf) for row, v in zip(W, b, strict=True)
        ]
        high = [
            -_rounded(self.least([-w for w in row], -v, known, box, None, {}), -math.inf)
            for row, v in zip(W, b, strict=True)
        ]
        return low, high

    def ruled_layers(self, box: Interval) -> list[Interval]:
        known: list[Interval] = []
        for _ in self.widths:
            known.append(self.ruled(known, box))
        return known

    def cut_layers(self, bounds: list[Interval], cuts: dict[int, int]) -> list[Interval]:
        known = []
        for k, (low, high) in enumerate(bounds):
            signs = [cuts.get(self.starts[k] + j, 0) for j in range(len(low))]
            known.append(
                (
                    [max(v, ZERO) if s > 0 else v for v, s in zip(low, signs, strict=True)],
                    [min(v, ZERO) if s < 0 else v for v, s in zip(high, signs, strict=True)],
                )
            )
        return known

    def unstable(self, bounds: list[Interval]) -> list[int]:
        return [
            self.starts[k] + j
            for k, part in enumerate(bounds)
            for j, (low, high) in enumerate(zip(*part, strict=True))
            if low < 0 < high
        ]

    def domain(self, i: int) -> tuple[dict[int, int], list[Interval] | None, int]:
        if i in self.domains:
            return self.domains[i]
        c, H = self.columns, self.starts[-1]
        _require(0 <= i < len(c["domain_case"]), "a domain is not there")
        parent, case = c["domain_parent"][i], c["domain_case"][i]
        _require(parent == -1 or 0 <= parent < i, "a domain stands before its parent")
        _require(0 <= case < len(self.prop.cases), "a domain is about no case")
        before = None if parent == -1 else self.domain(parent)
        block = _Block(self.block("domain", i))
        pairs = [(block.whole(H), 2 * block.whole(2) - 1) for _ in range(block.whole(H + 1))]
        cuts = dict(pairs)
        _require(pairs == sorted(cuts.items()), "the cuts of a domain are not in order")
        box_case = self.prop.cases[case]
        if before is not None:
            _require(before[0].items() <= cuts.items(), "a domain lies outside of its parent")
            _require(
                self.prop.cases[before[2]].has_box_of(box_case), "a domain has another box than its parent"
            )
        box = [Fraction(v) for v in box_case.lower.tolist()], [Fraction(v) for v in box_case.upper.tolist()]
        if before is not None and before[1] is None:  # a part of nothing
            self.domains[i] = cuts, None, case
            return self.domains[i]
        sides = block.take(H), block.take(H)
        known: list[Interval] | None = []
        for k in range(len(self.widths)):
            assert known is not None
            low, high = self.ruled(known, box)
            if before is not None and before[1] is not None:
                low = [max(pair) for pair in zip(low, before[1][k][0], strict=True)]
                high = [min(pair) for pair in zip(high, before[1][k][1], strict=True)]
            if k:
                self.rows(block, k, cuts, known, box, low, high)
            ((low, high),) = self.cut_layers(
                [(low, high)], {j - self.starts[k]: s for j, s in cuts.items() if j >= self.starts[k]}
            )
            stored = tuple(side[self.starts[k] : self.starts[k + 1]] for side in sides)
            fits = all(a <= b for a, b in zip(stored[0], low, strict=True)) and all(
                a <= b for a, b in zip(high, stored[1], strict=True)
            )
            _require(fits, "bounds of neurons do not hold")
            if any(a > b for a, b in zip(*stored, strict=True)):
                known = None
                break
            known.append((stored[0], stored[1]))
        _require(known is None or block.at == len(block.numbers), "a domain has too many numbers")
        self.domains[i] = cuts, known, case
        return self.domains[i]

    def rows(
        self,
        block: "_Block",
        k: int,
        cuts: dict[int, int],
        known: list[Interval],
        box: Interval,
        low: Numbers,
        high: Numbers,
    ) -> None:
        """Tighten bounds of layer k by the rows that have multipliers."""
        n = block.whole(2 * self.widths[k] + 1)
        targets = [block.whole(2 * self.widths[k]) for _ in range(n)]
        unstable = self.unstable(known)
        earlier = [j for j in sorted(cuts) if j < self.starts[k]]
        slopes = [block.take(len(unstable)) for _ in range(n)]
        betas = [block.take(len(earlier)) for _ in range(n)]
        for target, stored, beta in zip(targets, slopes, betas, strict=True):
            _require(
                all(0 <= s <= 1 for s in stored) and min(beta, default=ZERO) >= 0,
                "a multiplier is out of range",
            )
            j, sign = target // 2, 1 - 2 * (target % 2)
            pulls = {at: cuts[at] * v for at, v in zip(earlier, beta, strict=True)}
            of = dict(zip(unstable, stored, strict=True))
            found = self.least([sign * w for w in self.W[k][j]], sign * self.b[k][j], known, box, of, pulls)
            if sign > 0:
                low[j] = max(low[j], found)
            else:
                high[j] = min(high[j], -found)


class _Block:
    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self.at = numbers, 0

    def take(self, count: int) -> Numbers:
        _require(self.at + count <= len(self.numbers), "a domain has too few numbers")
        self.at += count
        return self.numbers[self.at - count : self.at]

    def whole(self, end: int) -> int:
        value = self.take(1)[0]
        _require(value.denominator == 1 and 0 <= value < end, "a whole number is out of range")
        return int(value)


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((v * w for v, w in zip(a, b, strict=True) if v and w), ZERO)


def _product(g: Numbers, W: Matrix) -> Numbers:
    total = [ZERO] * len(W[0])
    for factor, row in zip(g, W, strict=True):
        if factor:
            total = [t + factor * w for t, w in zip(total, row, strict=True)]
    return total


def _rounded(value: Fraction, towards: float) -> Fraction:
    """The double next to a number, on the side of -inf or inf."""
    nearest = float(value)
    exact = Fraction(nearest)
    if exact == value or (exact > value) == (towards > 0):
        return exact
    return Fraction(math.nextafter(nearest, towards))


def _model_hash(weights: Sequence[Any], biases: Sequence[Any]) -> str:
    """docs/proof_format.md, "Hashes"."""
    import hashlib

    digest = hashlib.sha256(b"featureprism model 2\nlayers relu\n")
    for i, (W, b) in enumerate(zip(weights, biases, strict=True), start=1):
        for name, array in (("W", W), ("b", b)):
            digest.update(f"{name}{i} {'x'.join(map(str, array.shape))}\n".encode())
            digest.update(array.astype("<f8").tobytes())
    return digest.hexdigest()
