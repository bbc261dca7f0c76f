"""Modules as text: what each name at the top of a module is defined by, and where imported names come from. Nothing is run."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

OURS = "featureprism"
Definition = tuple[str, str]  # module, name


@dataclass(frozen=True)
class Module:
    """The top of a module: what each name is defined by, where imported names come from, and what defines no name."""

    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str | None]]  # local name: (module, name in it), None for the module itself
    nameless: list[ast.stmt]


def is_in(module: str, packages: frozenset[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@cache
def registered() -> dict[Definition, list[Definition]]:
    """What featureprism registers with each of its generic functions, by `@function.register`, in whatever module."""
    root, found = Path(__file__).parents[1], {}
    for path in sorted(root.rglob("*.py")):
        if ".register" not in path.read_text(encoding="utf-8"):
            continue
        parts = path.relative_to(root.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        top = read_module(module)
        for name, statements in top.definitions.items():
            for generic in (g for s in statements for g in _generics(s)):
                where = (module, generic) if generic in top.definitions else top.imports.get(generic)
                if where is not None and where[1] is not None:
                    found.setdefault(_origin(where[0], where[1]), []).append((module, name))
    return found


def _generics(statement: ast.stmt) -> Iterator[str]:
    """The names of the functions that a definition is registered with."""
    for decorator in getattr(statement, "decorator_list", ()):
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(call, ast.Attribute) and call.attr == "register" and isinstance(call.value, ast.Name):
            yield call.value.id


def _origin(module: str, name: str) -> Definition:
    """The module in which an imported name is defined."""
    while is_readable(module):
        top = read_module(module)
        target = top.imports.get(name)
        if name in top.definitions or target is None or target[1] is None:
            break
        module, name = target[0], target[1]
    return module, name


@cache
def module_of(module: str, name: str | None) -> str | None:
    """The module that an imported name is, None if it is something in a module."""
    if name is None:
        return module
    if is_readable(module):
        top = read_module(module)
        is_submodule = top.imports.get(name) == (
            module,
            name,
        )  # from PACKAGE import name, in the package itself
        if name in top.definitions or (name in top.imports and not is_submodule):
            return None
    return f"{module}.{name}" if is_readable(f"{module}.{name}") else None


@cache
def is_readable(module: str) -> bool:
    return module_path(module) is not None


def module_path(module: str) -> Path | None:
    """The file of a module; None for one that was typed in by hand or is not Python."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
    else:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError):
            return None
        file = spec.origin if spec else None
    return Path(file) if file and file.endswith(".py") and Path(file).exists() else None


@cache
def read_module(module: str) -> Module:
    path = module_path(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = [s for s in node.body if not is_text(s)] or [ast.Pass()]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    imports = {
        local: target
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for local, target in _import_targets(node, package)
    }
    definitions: dict[str, list[ast.stmt]] = {}
    nameless: list[ast.stmt] = []
    for statement in _top(tree.body):
        names = _defines(statement)
        for name in names:
            definitions.setdefault(name, []).append(statement)
        if not names and not isinstance(statement, ast.Import | ast.ImportFrom) and not is_text(statement):
            nameless.append(statement)
    return Module(definitions, imports, nameless)


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements at the top, also those inside `if` and `try`."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            yield from _top(
                [s for field in ("body", "orelse", "finalbody") for s in getattr(statement, field, [])]
            )
        else:
            yield statement


def _defines(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = {
        ast.Assign: lambda s: s.targets,
        ast.AnnAssign: lambda s: [s.target],
        ast.AugAssign: lambda s: [s.target],
    }
    given = targets.get(type(statement), lambda _statement: [])(statement)
    return [node.id for target in given for node in ast.walk(target) if isinstance(node, ast.Name)]


def _import_targets(
    node: ast.Import | ast.ImportFrom, package: str
) -> Iterator[tuple[str, tuple[str, str | None]]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], (alias.name, None)
        return
    base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    module = ".".join([*base, *([node.module] if node.module else [])])
    for alias in node.names:
        yield alias.asname or alias.name, (module, alias.name)


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
