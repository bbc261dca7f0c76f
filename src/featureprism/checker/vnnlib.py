"""Properties of the verification competition (VNN-LIB 1.0 and 2.0): boxes of inputs and what the outputs must not do there.

A file declares constants X_0, X_1, … (inputs) and Y_0, Y_1, … (outputs) and asserts constraints. It describes counterexamples: the
property is violated by an input that satisfies every assertion, and holds where none exists. Assertions are <= and >= between sums of
constants and multiples of variables, joined by `and` and `or`. Numbers are decimal; where they are no doubles, boxes are rounded
outwards and thresholds so that there are more counterexamples, never fewer. Files of version 2.0 are read where they speak of one
network with one input and one output: X[0,3] is the X_3 of version 1.0, elements counted in C order.
"""

import gzip
import hashlib
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 2**27  # bytes of a file, unpacked
DEEPEST = 50  # parentheses within parentheses
MOST_CASES = 10_000  # ways to be violated
MOST_VARIABLES = 2**22
LONGEST_NUMBER = 400  # characters
TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\Z")
NAME = re.compile(r"([XY])_(\d{1,9})\Z")
BRACKETS = re.compile(r"\s*\[([\s\d,]*)\]")  # of version 2.0, with the word before
ELEMENT = re.compile(r"([^\[\]]+)\[((?:\d{1,9}(?:,\d{1,9})*)?)\]\Z")
LARGEST = 1e100

Tree = list[Any] | str
Linear = tuple[dict[str, Fraction], Fraction]  # coefficients of variables, and a constant


@dataclass(frozen=True, eq=False)
class Case:
    """One way to be violated: some x with lower ≤ x ≤ upper has A y ≤ b, y the outputs at x."""

    lower: np.ndarray  # (d,)
    upper: np.ndarray
    A: np.ndarray  # (m, k)
    b: np.ndarray  # (m,)

    def has_box_of(self, other: "Case") -> bool:
        """Whether both speak of the same inputs."""
        return np.array_equal(self.lower, other.lower) and np.array_equal(self.upper, other.upper)


@dataclass(frozen=True, eq=False)
class Property:
    """What a network must not do: it is violated in any of the cases, and holds if no input realises one."""

    cases: tuple[Case, ...]
    num_inputs: int
    num_outputs: int

    @property
    def sha256(self) -> str:
        """The hash of all cases (docs/proof_format.md, "Properties")."""
        digest = hashlib.sha256(f"featureprism property 1\ncases {len(self.cases)}\n".encode())
        for case in self.cases:
            for name in ("lower", "upper", "A", "b"):
                array = getattr(case, name)
                digest.update(f"{name} {'x'.join(map(str, array.shape))}\n".encode())
                digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()


def read_property(path: Path) -> Property:
    """Read a property in VNN-LIB format.

    Parameters
    ----------
    path : path
        A .vnnlib file, gzipped or not.

    Returns
    -------
    Property
        Bounds of the inputs, and constraints on the outputs.

    Raises
    ------
    ValueError
        With the file's name, for whatever is wrong with it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import featureprism as fp
    >>> text = '(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0))(assert (<= X_0 1))(assert (<= Y_0 0))'
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / 'p.vnnlib'
    ...     _ = path.write_text(text)
    ...     prop = fp.verify.read_property(path)
    >>> len(prop.cases)
    1
    """
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
        if content[:2] == b"\x1f\x8b":
            with gzip.open(path) as unpacked:
                content = unpacked.read(LONGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it is cut short"
        raise ValueError(f"Cannot read {path}: {reason}; a .vnnlib file is wanted.") from error
    if len(content) > LONGEST:
        raise ValueError(f"{path} is longer than {LONGEST} bytes, more than is read.")
    try:
        return property_of(content.decode("utf-8", errors="strict"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text; a .vnnlib file is wanted.") from error
    except ValueError as error:
        raise ValueError(f"{path} is no property that can be read: {error}") from error


def property_of(text: str) -> Property:
    """The property that a VNN-LIB text describes.

    Parameters
    ----------
    text : str
        The content of a .vnnlib file, version 1.0, or 2.0 about one network.

    Returns
    -------
    Property
        Its cases: boxes of inputs and rows A y ≤ b of outputs, each a way to violate it.

    Raises
    ------
    ValueError
        For what is not understood, in one sentence.

    Examples
    --------
    >>> import featureprism as fp
    >>> text = "(declare-const X_0 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)"
    >>> text += "(assert (>= X_0 0))(assert (<= X_0 1))(assert (or (>= Y_0 Y_1) (<= Y_1 -2)))"
    >>> [(case.A.tolist(), case.b.tolist()) for case in fp.verify.property_of(text).cases]
    [([[-1.0, 1.0]], [0.0]), ([[0.0, 1.0]], [-2.0])]
    """
    counts = {"X": 0, "Y": 0}
    asserted: list[Tree] = []
    for command in _of_first_version(text):
        match command:
            case ["declare-const", str(name), "Real"] if found := NAME.match(name):
                kind, number = found[1], int(found[2])
                _refuse(number != counts[kind], f"{name} is declared where {kind}_{counts[kind]} is next.")
                _refuse(number >= MOST_VARIABLES, f"it has more than {MOST_VARIABLES} variables.")
                counts[kind] += 1
            case ["assert", tree]:
                asserted.append(tree)
            case ["set-logic" | "check-sat" | "get-model" | "set-info" | "exit", *_]:
                pass
            case _:
                raise ValueError(f"{_shown(command)} is not understood; wanted are declare-const and assert.")
    _refuse(not counts["X"] or not counts["Y"], "it declares no inputs X_0, … or no outputs Y_0, ….")
    ways: list[_Way] = [_Way({}, {}, ())]
    for tree in asserted:
        ways = [both for way in _ways(tree, counts) for before in ways if (both := before.with_(way))]
        _refuse(len(ways) > MOST_CASES, f"it has more than {MOST_CASES} cases.")
    cases = tuple(way.case(counts["X"], counts["Y"]) for way in ways if way.has_inputs())
    return Property(cases, counts["X"], counts["Y"])


def _refuse(bad: bool, why: str) -> None:
    if bad:
        raise ValueError(why)


def _of_first_version(text: str) -> Iterator[Tree]:
    """The commands of a text, those of version 2.0 in the words of 1.0."""
    if "vnnlib-version" not in text:
        yield from _commands(text)
        return
    text = re.sub(r";[^\n]*", "", text)
    text = BRACKETS.sub(lambda found: f"[{''.join(found[1].split())}]", text)
    letters: dict[str, tuple[str, list[int]]] = {}
    for command in _commands(text):
        match command:
            case ["vnnlib-version", version]:
                _refuse(version != "<2.0>", f"its version is {_shown(version)}; 1.0 and 2.0 are read.")
            case ["declare-network", str(), *parts]:
                _refuse(bool(letters), "it speaks of several networks; one is wanted.")
                for part in parts:
                    name, letter, shape = _declared(part)
                    taken = name in letters or letter in {known for known, _ in letters.values()}
                    _refuse(taken, "its network has several inputs or outputs; one of each is wanted.")
                    letters[name] = letter, shape
                    _refuse(
                        math.prod(shape) > MOST_VARIABLES, f"it has more than {MOST_VARIABLES} variables."
                    )
                    yield from (["declare-const", f"{letter}_{i}", "Real"] for i in range(math.prod(shape)))
            case ["assert", tree]:
                yield ["assert", _renamed(tree, letters)]
            case _:
                raise ValueError(
                    f"{_shown(command)} is not understood; wanted are declare-network and assert."
                )


def _declared(part: Tree) -> tuple[str, str, list[int]]:
    """The name of an input or output, X or Y for it, and its shape."""
    match part:
        case ["declare-input" | "declare-output" as kind, str(name), str(type_and_shape), *_] if (
            found := ELEMENT.match(type_and_shape)
        ):
            return name, "X" if kind == "declare-input" else "Y", [int(n) for n in found[2].split(",") if n]
        case _:
            raise ValueError(
                f"{_shown(part)} is not understood; wanted are declare-input and declare-output."
            )


def _renamed(tree: Tree, letters: dict[str, tuple[str, list[int]]]) -> Tree:
    """X[0,3] as X_3."""
    if not isinstance(tree, str):
        return [_renamed(part, letters) for part in tree]
    if not (found := ELEMENT.match(tree)):
        return tree
    _refuse(found[1] not in letters, f"{tree[:30]} is not declared.")
    letter, shape = letters[found[1]]
    index = [int(n) for n in found[2].split(",") if n]
    inside = len(index) == len(shape) and all(i < n for i, n in zip(index, shape, strict=True))
    _refuse(not inside, f"{tree[:30]} lies outside of its shape {shape}.")
    place = 0
    for i, n in zip(index, shape, strict=True):
        place = place * n + i
    return f"{letter}_{place}"


def _commands(text: str) -> Iterator[Tree]:
    """The expressions of a text, one after the other."""
    stack: list[list[Any]] = []
    for match in TOKEN.finditer(text):
        token = match[0]
        if token[0] == ";":
            continue
        if token == "(":
            _refuse(len(stack) >= DEEPEST, f"parentheses are nested more than {DEEPEST} deep.")
            stack.append([])
            continue
        _refuse(not stack, f"{token[:20]!r} stands outside of parentheses.")
        if token != ")":
            stack[-1].append(token)
            continue
        done = stack.pop()
        if stack:
            stack[-1].append(done)
        else:
            yield done
    _refuse(bool(stack), "a parenthesis is not closed.")


def _shown(tree: Tree, most: int = 60) -> str:
    words = str(tree).replace("'", "").replace(",", "")
    return words if len(words) <= most else f"{words[:most]}…"


@dataclass(frozen=True)
class _Way:
    """Bounds of inputs and rows ⟨a, y⟩ ≤ b that hold together."""

    lower: dict[int, Fraction]
    upper: dict[int, Fraction]
    rows: tuple[tuple[dict[int, Fraction], Fraction], ...]

    def with_(self, other: "_Way") -> "_Way":
        lower, upper = dict(self.lower), dict(self.upper)
        for i, v in other.lower.items():
            lower[i] = max(v, lower.get(i, v))
        for i, v in other.upper.items():
            upper[i] = min(v, upper.get(i, v))
        return replace(self, lower=lower, upper=upper, rows=self.rows + other.rows)

    def has_inputs(self) -> bool:
        """Whether the box is not empty."""
        return all(low <= self.upper.get(i, low) for i, low in self.lower.items())

    def case(self, num_inputs: int, num_outputs: int) -> Case:
        missing = [i for i in range(num_inputs) if i not in self.lower or i not in self.upper]
        _refuse(bool(missing), f"the input X_{missing[0] if missing else 0} has no lower and upper bound.")
        lower = np.array([_rounded(self.lower[i], -math.inf) for i in range(num_inputs)])
        upper = np.array([_rounded(self.upper[i], math.inf) for i in range(num_inputs)])
        A, b = np.zeros((len(self.rows), num_outputs)), np.zeros(len(self.rows))
        for j, (row, most) in enumerate(self.rows):
            for i, factor in row.items():
                A[j, i] = float(factor)
                _refuse(Fraction(A[j, i]) != factor, f"the factor {float(factor)} of Y_{i} is no double.")
            b[j] = _rounded(most, math.inf)
        return Case(lower, upper, A, b)


def _rounded(value: Fraction, towards: float) -> float:
    """The double next to a number on one side."""
    nearest = float(value)
    if Fraction(nearest) == value or (Fraction(nearest) > value) == (towards > 0):
        return nearest
    return math.nextafter(nearest, towards)


def _ways(tree: Tree, counts: dict[str, int]) -> list[_Way]:
    """The ways in which an assertion can be true."""
    match tree:
        case ["or", *parts]:
            every = [way for part in parts for way in _ways(part, counts)]
        case ["and", *parts]:
            every = [_Way({}, {}, ())]
            for part in parts:
                every = [before.with_(way) for way in _ways(part, counts) for before in every]
                _refuse(len(every) > MOST_CASES, f"it has more than {MOST_CASES} cases.")
        case ["<=", left, right]:
            every = [_row(_linear(left, counts), _linear(right, counts))]
        case [">=", left, right]:
            every = [_row(_linear(right, counts), _linear(left, counts))]
        case ["==", left, right]:
            one, other = _linear(left, counts), _linear(right, counts)
            every = [_row(one, other).with_(_row(other, one))]
        case _:
            raise ValueError(f"{_shown(tree)} is not understood; wanted are <=, >=, ==, and, or.")
    _refuse(len(every) > MOST_CASES, f"it has more than {MOST_CASES} cases.")
    return every


def _row(small: Linear, large: Linear) -> _Way:
    """small ≤ large as a bound of one input, or as a row of outputs."""
    factors = {
        name: small[0].get(name, Fraction(0)) - large[0].get(name, Fraction(0))
        for name in {**small[0], **large[0]}
    }
    factors = {name: factor for name, factor in factors.items() if factor}
    most = large[1] - small[1]
    kinds = {name[0] for name in factors}
    if kinds == {"X"} and len(factors) == 1:
        ((name, factor),) = factors.items()
        bound = {int(name[2:]): most / factor}
        return _Way({}, bound, ()) if factor > 0 else _Way(bound, {}, ())
    _refuse("X" in kinds, "a constraint on inputs must be a bound of one input.")
    return _Way({}, {}, (({int(name[2:]): factor for name, factor in factors.items()}, most),))


def _linear(tree: Tree, counts: dict[str, int]) -> Linear:
    if isinstance(tree, str):
        if found := NAME.match(tree):
            _refuse(int(found[2]) >= counts[found[1]], f"{tree} is not declared.")
            return {f"{found[1]}_{int(found[2])}": Fraction(1)}, Fraction(0)
        _refuse(
            len(tree) > LONGEST_NUMBER or not NUMBER.match(tree),
            f"{tree[:30]!r} is no number and no variable.",
        )
        value = Fraction(tree)
        _refuse(abs(value) > LARGEST, f"the number {tree[:30]} is too large.")
        return {}, value
    match tree:
        case ["+", *parts] if parts:
            return _sum([_linear(part, counts) for part in parts])
        case ["-", part]:
            return _scaled(_linear(part, counts), Fraction(-1))
        case ["-", first, *rest] if rest:
            minus = [_scaled(_linear(part, counts), Fraction(-1)) for part in rest]
            return _sum([_linear(first, counts), *minus])
        case ["*", left, right]:
            one, other = _linear(left, counts), _linear(right, counts)
            _refuse(bool(one[0]) and bool(other[0]), "a product of two variables is not linear.")
            return _scaled(other, one[1]) if not one[0] else _scaled(one, other[1])
        case _:
            raise ValueError(f"{_shown(tree)} is not understood; wanted are numbers, variables, +, -, *.")


def _sum(parts: list[Linear]) -> Linear:
    total: dict[str, Fraction] = {}
    for factors, _ in parts:
        for name, factor in factors.items():
            total[name] = total.get(name, Fraction(0)) + factor
    return total, sum((constant for _, constant in parts), Fraction(0))


def _scaled(part: Linear, factor: Fraction) -> Linear:
    return {name: value * factor for name, value in part[0].items()}, part[1] * factor
