"""Which definitions a function depends on, and a hash of them: edited code is known by another name, an edited comment is not.

Followed statically, from name to name: a function or class brings what its body names, in its module and in those it imports, as long
as they belong to featureprism or to the package of the function. Definitions are compared without comments and docstrings. A
module that is used as a whole (handed to a function, say) counts as a whole, and statements at the top of a module that define no name
count for everything in it.

There are two hashes, for two questions. `source_hash`: may these rows be used again? It follows every definition of the whole library,
and the store of units is keyed by it. `paper_hash` and `value_hash`: is this still the item that was published? They follow definitions
within the paper of the item alone, in their normal form (`lab.normal_form`): renaming a local variable or a helper is no change.
What is called of the library counts by its name, not by its body: a verdict survives a faster attack or a moved module, whose tests
answer for them, and does not survive another measure.
"""

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CellType
from typing import Any

from featureprism.lab.modules import (
    OURS,
    Definition,
    is_in,
    is_readable,
    module_of,
    module_path,
    read_module,
    registered,
)
from featureprism.lab.normal_form import Writer, normal_form


def source_hash(function: Callable) -> str:
    """A hash of everything that `function` may run."""
    digest = hashlib.sha256(b"".join(_typed_in(part) for part in _parts(function)))
    for definition in sorted(dependencies(function)):
        digest.update(_text(*definition).encode())
    return digest.hexdigest()[:16]


def paper_hash(function: Callable) -> str:
    """A hash of what `function` runs within its own paper, wherever in the paper it is defined and however its parts are called."""

    def write(form: Writer) -> None:
        form.texts += [form.definition(*start) for start in _starts(function)]
        form.texts += [repr(_typed_in(part)) for part in _parts(function)]

    return _digest(normal_form(write, paper_packages(function)))


def value_hash(function: Callable, packages: frozenset[str] | None = None) -> str:
    """A hash of a small function (often a lambda) and what it runs within `packages`, but not of the statement around it.

    The words of a claim stand beside the lambda that gives its value: they do not count.
    """

    def write(form: Writer) -> None:
        if isinstance(function, partial):
            form.texts += map(_shown, [*function.args, *sorted(function.keywords.items())])
        seen: set[int] = set()
        for part in _parts(function):
            _write_value(part, form, seen)

    return _digest(normal_form(write, paper_packages(function) if packages is None else packages))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def paper_packages(function: Callable) -> frozenset[str]:
    """The package of the paper that a function belongs to: featureprism.papers.NAME, or another distribution's package."""
    modules = [part.__module__ for part in _parts(function)]
    papers = [m for m in modules if not is_in(m, frozenset({OURS})) or m.startswith(f"{OURS}.papers.")]
    return frozenset(
        package
        for m in papers or modules
        for package in ({".".join(m.split(".")[:3])} if is_in(m, frozenset({OURS})) else _neighbours(m))
    )


def _write_value(function: Any, form: Writer, seen: set[int]) -> None:
    """Write the function itself and the values it closes over."""
    if id(function) in seen:
        return
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    if code is None or function.__module__ is None or not is_readable(function.__module__):
        form.texts.append(code.co_code.hex() + repr(code.co_consts) if code else repr(function))
        return
    names = list(code.co_freevars)
    if is_in(function.__module__, form.packages):
        nodes = _nodes_at(function.__module__, code.co_firstlineno)
        named = [name for node in nodes for name in form.add(node, function.__module__, names)]
        names = list(dict.fromkeys(named)) or names
    else:
        form.texts.append(_qualified(function))
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    values = [cells[name].cell_contents for name in names if cells[name] != _EMPTY]
    for value in (*values, *(function.__defaults__ or ())):
        if inspect.isfunction(value):
            _write_value(value, form, seen)
        else:
            form.texts.append(_shown(value))


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
    path = module_path(module)
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
    statements = read_module(module).definitions.get(name, []) if name else read_module(module).nameless
    return "\n".join(map(ast.unparse, statements))


def _typed_in(function: Any) -> bytes:
    """The code of a function that no file holds."""
    code = getattr(function, "__code__", None)
    return (
        b""
        if code is None or is_readable(function.__module__)
        else code.co_code + repr(code.co_consts).encode()
    )


def dependencies(function: Callable) -> set[Definition]:
    """Every definition that is reached from a function, as (module, name); ("module", "") stands for its nameless statements."""
    return _reached(_starts(function), _packages(function))


def _starts(function: Callable) -> list[Definition]:
    """The definitions in which the parts of a function stand."""
    return [(part.__module__, part.__qualname__.partition(".")[0]) for part in _parts(function)]


def _packages(function: Callable) -> frozenset[str]:
    """The packages whose definitions count."""
    return frozenset({OURS}.union(*(_neighbours(part.__module__) for part in _parts(function))))


def _reached(waiting: list[Definition], packages: frozenset[str]) -> set[Definition]:
    """Everything that is named, from definition to definition."""
    reached: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in reached and is_in(definition[0], packages) and is_readable(definition[0]):
            reached.add(definition)
            waiting += _named_by(*definition, packages)
    return reached


def _neighbours(module: str) -> set[str]:
    """The package of a module; for a single file that is not installed, also the files and packages beside it."""
    path, package = module_path(module), module.partition(".")[0]
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
    top = read_module(module)
    if name in top.definitions:
        statements = top.definitions[name]
        return (
            (module, ""),
            *registered().get((module, name), ()),
            *(target for s in statements for target in _targets(s, module, packages)),
        )
    if name in top.imports:
        return tuple(_imported(*top.imports[name], packages))
    if not name:
        return tuple(target for s in top.nameless for target in _targets(s, module, packages))
    return tuple(_imported(f"{module}.{name}", None, packages))  # a submodule


def _targets(statement: ast.AST, module: str, packages: frozenset[str]) -> Iterator[Definition]:
    """The definitions that a statement names; module.name is followed to the name alone."""
    top, through, nodes = read_module(module), set[ast.Name](), list(ast.walk(statement))
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in top.imports
        ):
            target = module_of(*top.imports[node.value.id])
            if target is not None:
                through.add(node.value)
                if is_in(target, packages):
                    yield target, node.attr
    for node in nodes:
        if isinstance(node, ast.Name) and node not in through:
            if node.id in top.definitions:
                yield module, node.id
            elif node.id in top.imports:
                yield from _imported(*top.imports[node.id], packages)


def _imported(module: str, name: str | None, packages: frozenset[str]) -> Iterator[Definition]:
    """The definition behind an imported name; all of a module that is imported as such."""
    if not is_in(module, packages):
        return
    whole = module_of(module, name)
    if whole is None:
        yield module, name or ""
    elif is_readable(whole):
        yield from ((whole, each) for each in ("", *read_module(whole).definitions))
