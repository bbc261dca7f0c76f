"""Where a small bug can be planted, found in the syntax of a file: every site is a piece of source and what takes its place.

A site is known by its file, the definition around it, its kind and its number there, so that it is found again when lines move.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARE = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
SIGNS = {ast.Add: "-", ast.Sub: "+"}
PAIRS = ("min max", "minimum maximum", "any all", "floor ceil", "argmin argmax", "low high", "amin amax")
SWAPPED = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
ROUNDING = {"down", "up", "outward", "nextafter", "round", "rounded_down", "rounded_up"}
GUARDS = {"refuse_unless", "_refuse", "refuse"}
PLAIN_KEYWORDS = {"axis", "dim", "ndim", "indent", "stacklevel"}  # a wrong one fails at once


@dataclass(frozen=True)
class Site:
    """A piece of a file, from byte to byte, and what it becomes."""

    path: str
    where: str
    kind: str
    number: int
    line: int
    start: int
    end: int
    new: str

    @property
    def id(self) -> str:
        """Its name in the list of outcomes."""
        return f"{self.path}:{self.where}:{self.kind}:{self.number}"

    @property
    def rank(self) -> str:
        """Its place in a shuffled order that depends on its name alone."""
        return hashlib.sha256(self.id.encode()).hexdigest()

    def planted(self, source: bytes) -> bytes:
        """The file with the bug in it."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def change(self, source: bytes) -> str:
        """Its line before and after, for people."""
        begin = source.rfind(b"\n", 0, self.start) + 1
        end = source.find(b"\n", self.end)
        before, after = source[begin:end], self.planted(source[:end])[begin:]
        return " ".join(f"{before.decode()} → {after.decode()}".split())


def sites_of(root: Path, path: str) -> list[Site]:
    """Every site of a file, in order."""
    source = (root / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    count: Counter[tuple[str, str]] = Counter()
    sites = []
    for where, kind, line, begin, end, new in _walk(ast.parse(source), source, starts):
        count[where, kind] += 1
        sites.append(Site(path, where, kind, count[where, kind], line, begin, end, new))
    return sites


def _walk(
    tree: ast.Module, source: bytes, starts: list[int]
) -> Iterator[tuple[str, str, int, int, int, str]]:
    def begin(node: ast.AST) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.AST) -> int:
        return starts[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.AST) -> str:
        return source[begin(node) : end(node)].decode()

    def between(left: ast.AST, right: ast.AST, new: str) -> tuple[int, int, str]:
        """The operator between two nodes, without the brackets beside it."""
        first, last = end(left), begin(right)
        piece = source[first:last]
        inner = piece.strip(b" \n()")
        first += piece.index(inner)
        return first, first + len(inner), new

    def here(node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARE:
                yield "compare", *between(left, right, COMPARE[type(op)])
            case ast.Compare(left=left, ops=[first, second], comparators=[middle, right]):
                for a, op, b in ((left, first, middle), (middle, second, right)):
                    if type(op) in COMPARE:
                        yield "compare", *between(a, b, COMPARE[type(op)])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in SIGNS:
                if not any(
                    isinstance(side, ast.Constant | ast.JoinedStr) and not _number(side)
                    for side in (left, right)
                ):
                    yield "sign", *between(left, right, SIGNS[type(op)])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield "sign", begin(node), end(node), f"({text(operand)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield "logic", begin(node), end(node), f"({text(operand)})"
            case ast.BoolOp(op=op, values=[first, second, *_]):
                yield "logic", *between(first, second, "or" if isinstance(op, ast.And) else "and")
            case ast.Constant(value=value) if _number(node):
                new = value + 1 if isinstance(value, int) else 2 * value if value else 1.0
                yield "constant", begin(node), end(node), repr(new)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name) as func, args=[first, *_]):
                if name in ROUNDING:
                    yield "rounding", begin(node), end(node), f"({text(first)})"
                elif name in SWAPPED:
                    yield "swap", end(func) - len(name), end(func), SWAPPED[name]
            case ast.Call(func=ast.Attribute(attr=name) as func) if name in SWAPPED:
                yield "swap", end(func) - len(name), end(func), SWAPPED[name]
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in GUARDS:
                yield "guard", begin(node), end(node), "pass"
            case ast.If(test=test, body=[ast.Raise()], orelse=[]):
                yield "guard", begin(test), end(test), "False"

    def visit(node: ast.AST, where: str) -> Iterator[tuple[str, str, int, int, int, str]]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}".lstrip(".")
        for kind, first, last, new in here(node):
            yield where, kind, node.lineno, first, last, new
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params") or isinstance(
                node, ast.JoinedStr | ast.Raise
            ):
                continue
            if isinstance(node, ast.keyword) and node.arg in PLAIN_KEYWORDS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from visit(child, where)

    yield from visit(tree, "")


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)
