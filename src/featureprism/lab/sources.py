"""Which definitions a function depends on, and a hash of them: edited code is known by another name, an edited comment is not.

Followed statically, from name to name: a function or class brings what its body names, in its module and in those it imports, as long
as they belong to featureprism or to the package of the function. Definitions are compared without comments and docstrings. A
module that is used as a whole (handed to a function, say) counts as a whole, and statements at the top of a module that define no name
count for everything in it.

There are two hashes, for two questions. `source_hash`: may these rows be used again? It follows every definition of the whole library,
and the store of units is keyed by it. `paper_hash` and `value_hash`: is this still the item that was published? They follow definitions
within the item's own paper alone. What is called of the library counts by the name under which the paper calls it, not by its body:
a verdict survives a faster attack or a moved module, whose own tests answer for them, and does not survive another measure.
"""

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import CellType
from typing import Any

OURS = "featureprism"
Definition = tuple[str, str]  # module, name


@dataclass(frozen=True)
class Module:
    """The top of a module: what each name is defined by, where imported names come from, and what defines no name."""

    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str | None]]  # local name: (module, name in it), None for the module itself
    nameless: list[ast.stmt]


def source_hash(function: Callable) -> str:
    """A hash of everything that `function` may run."""
    digest = hashlib.sha256(b"".join(_typed_in(part) for part in _parts(function)))
    for definition in sorted(dependencies(function)):
        digest.update(_text(*definition).encode())
    return digest.hexdigest()[:16]


def paper_hash(function: Callable) -> str:
    """A hash of what `function` runs within its own paper, wherever in the paper it is defined."""
    packages = paper_packages(function)
    names = {_qualified(part) for part in _parts(function)}
    texts = {_body(*definition) for definition in _reached(_starts(function), packages)}
    typed_in = b"".join(_typed_in(part) for part in _parts(function))
    return hashlib.sha256("\n".join(sorted(names | texts)).encode() + typed_in).hexdigest()[:16]


def value_hash(function: Callable, packages: frozenset[str] | None = None) -> str:
    """A hash of a small function (often a lambda) and what it runs within `packages`, but not of the statement around it.

    The words of a claim stand beside the lambda that gives its value: they do not count.
    """
    digest = hashlib.sha256()
    if isinstance(function, partial):
        given = [*function.args, *sorted(function.keywords.items())]
        digest.update(" ".join(map(_shown, given)).encode())
    packages = paper_packages(function) if packages is None else packages
    for part in _parts(function):
        for text in _small_parts(part, packages, set()):
            digest.update(text.encode())
    return digest.hexdigest()[:16]


def paper_packages(function: Callable) -> frozenset[str]:
    """The package of the paper that a function belongs to: featureprism.papers.NAME, or another distribution's package."""
    modules = [part.__module__ for part in _parts(function)]
    papers = [m for m in modules if not _is_in(m, frozenset({OURS})) or m.startswith(f"{OURS}.papers.")]
    return frozenset(
        package
        for m in papers or modules
        for package in ({".".join(m.split(".")[:3])} if _is_in(m, frozenset({OURS})) else _neighbours(m))
    )


def _small_parts(function: Any, packages: frozenset[str], seen: set[int]) -> Iterator[str]:
    """The function itself, the values it closes over, and the definitions that it names."""
    if id(function) in seen:
        return
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    if code is None or function.__module__ is None or not _is_readable(function.__module__):
        yield code.co_code.hex() + repr(code.co_consts) if code else repr(function)
        return
    nodes = _nodes_at(function.__module__, code.co_firstlineno)
    is_within = _is_in(function.__module__, packages)
    yield from map(ast.unparse, nodes) if is_within else [_qualified(function)]
    values = [cell.cell_contents for cell in function.__closure__ or () if cell != _EMPTY]
    for value in (*values, *(function.__defaults__ or ())):
        if inspect.isfunction(value):
            yield from _small_parts(value, packages, seen)
        else:
            yield _shown(value)
    if is_within:
        targets = [target for node in nodes for target in _targets(node, function.__module__, packages)]
        yield from sorted({_body(*definition) for definition in _reached(targets, packages)})


def _qualified(function: Any) -> str:
    """The name of a function; a lambda has none."""
    return function.__qualname__.replace("<lambda>", "")


def _shown(value: Any) -> str:
    """A value that a function is given; its type where it has no other words than its address."""
    text = repr(value)
    return text if " at 0x" not in text else type(value).__qualname__


_EMPTY = CellType()


@cache
def _nodes_at(module: str, line: int) -> tuple[ast.AST, ...]:
    """The functions and lambdas that begin at a line of a module."""
    path = _path(module)
    assert path is not None
    kinds = (ast.Lambda, ast.FunctionDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(n for n in ast.walk(tree) if isinstance(n, kinds) and n.lineno == line)


def _text(module: str, name: str) -> str:
    """A definition with its place."""
    return f"{module}:{name}\n{_body(module, name)}"


@cache
def _body(module: str, name: str) -> str:
    """A definition without comments, docstrings and places."""
    statements = _read(module).definitions.get(name, []) if name else _read(module).nameless
    return "\n".join(map(ast.unparse, statements))


def _typed_in(function: Any) -> bytes:
    """The code of a function that no file holds."""
    code = getattr(function, "__code__", None)
    return (
        b""
        if code is None or _is_readable(function.__module__)
        else code.co_code + repr(code.co_consts).encode()
    )


def dependencies(function: Callable) -> set[Definition]:
    """Every definition that is reached from a function, as (module, name); ("module", "") stands for its nameless statements."""
    return _reached(_starts(function), _packages(function))


def _starts(function: Callable) -> list[Definition]:
    """The definitions in which the parts of a function stand."""
    return [(part.__module__, part.__qualname__.partition(".")[0]) for part in _parts(function)]


def _is_in(module: str, packages: frozenset[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _packages(function: Callable) -> frozenset[str]:
    """The packages whose definitions count."""
    return frozenset({OURS}.union(*(_neighbours(part.__module__) for part in _parts(function))))


def _reached(waiting: list[Definition], packages: frozenset[str]) -> set[Definition]:
    """Everything that is named, from definition to definition."""
    reached: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in reached and _is_in(definition[0], packages) and _is_readable(definition[0]):
            reached.add(definition)
            waiting += _named_by(*definition, packages)
    return reached


def _neighbours(module: str) -> set[str]:
    """The package of a module; for a single file that is not installed, also the files and packages beside it."""
    path, package = _path(module), module.partition(".")[0]
    if path is None or "." in module or package == OURS or path.parent in _installed():
        return {package}
    return {package, *(file.stem for file in path.parent.iterdir() if file.suffix == ".py" or file.is_dir())}


@cache
def _installed() -> frozenset[Path]:
    """The folders that packages are installed to, where whatever lies beside a module has nothing to do with it."""
    return frozenset(
        Path(path) for path in (*sys.path, *sysconfig.get_paths().values()) if _is_site(Path(path))
    )


def _is_site(path: Path) -> bool:
    known = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib", "platlib")}
    return path in known or any(path.glob("*.dist-info"))


def _parts(function: Any) -> list[Any]:
    """The functions and classes that a call consists of: those of a partial, and those handed to it."""
    if isinstance(function, partial):
        given = [function.func, *function.args, *function.keywords.values()]
        return [part for value in given if callable(value) for part in _parts(value)]
    if isinstance(function, type) or inspect.isfunction(function):
        return [function]
    kind = type(function)
    return [kind] if kind.__module__.partition(".")[0] == OURS else []


@cache
def _named_by(module: str, name: str, packages: frozenset[str]) -> tuple[Definition, ...]:
    """What a definition names, one step on."""
    top = _read(module)
    if name in top.definitions:
        statements = top.definitions[name]
        return (
            (module, ""),
            *_registered().get((module, name), ()),
            *(target for s in statements for target in _targets(s, module, packages)),
        )
    if name in top.imports:
        return tuple(_imported(*top.imports[name], packages))
    if not name:
        return tuple(target for s in top.nameless for target in _targets(s, module, packages))
    return tuple(_imported(f"{module}.{name}", None, packages))  # a submodule


@cache
def _registered() -> dict[Definition, list[Definition]]:
    """What featureprism registers with each of its generic functions, by `@function.register`, in whatever module."""
    root, found = Path(__file__).parents[1], {}
    for path in sorted(root.rglob("*.py")):
        if ".register" not in path.read_text(encoding="utf-8"):
            continue
        parts = path.relative_to(root.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        top = _read(module)
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
    while _is_readable(module):
        top = _read(module)
        target = top.imports.get(name)
        if name in top.definitions or target is None or target[1] is None:
            break
        module, name = target[0], target[1]
    return module, name


def _targets(statement: ast.AST, module: str, packages: frozenset[str]) -> Iterator[Definition]:
    """The definitions that a statement names; module.name is followed to the name alone."""
    top, through, nodes = _read(module), set[ast.Name](), list(ast.walk(statement))
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in top.imports
        ):
            target = _module_of(*top.imports[node.value.id])
            if target is not None:
                through.add(node.value)
                if _is_in(target, packages):
                    yield target, node.attr
    for node in nodes:
        if isinstance(node, ast.Name) and node not in through:
            if node.id in top.definitions:
                yield module, node.id
            elif node.id in top.imports:
                yield from _imported(*top.imports[node.id], packages)


def _imported(module: str, name: str | None, packages: frozenset[str]) -> Iterator[Definition]:
    """The definition behind an imported name; all of a module that is imported as such."""
    if not _is_in(module, packages):
        return
    whole = _module_of(module, name)
    if whole is None:
        yield module, name or ""
    elif _is_readable(whole):
        yield from ((whole, each) for each in ("", *_read(whole).definitions))


@cache
def _module_of(module: str, name: str | None) -> str | None:
    """The module that an imported name is, None if it is something in a module."""
    if name is None:
        return module
    if _is_readable(module):
        top = _read(module)
        is_submodule = top.imports.get(name) == (
            module,
            name,
        )  # from PACKAGE import name, in the package itself
        if name in top.definitions or (name in top.imports and not is_submodule):
            return None
    return f"{module}.{name}" if _is_readable(f"{module}.{name}") else None


@cache
def _is_readable(module: str) -> bool:
    return _path(module) is not None


def _path(module: str) -> Path | None:
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
def _read(module: str) -> Module:
    path = _path(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = [s for s in node.body if not _is_text(s)] or [ast.Pass()]
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
        if not names and not isinstance(statement, ast.Import | ast.ImportFrom) and not _is_text(statement):
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


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
