"""Code without the names that do not matter, so that two versions which differ in them alone have one text.

Numbered in the order of their first appearance: local variables, parameters, and the names of definitions inside the paper. Left out:
comments, docstrings, imports, and of annotations everything but the paper's classes (whose methods a measure runs). Kept: constants,
operators, the order of everything, attributes and fields, keywords of calls, the names of what is called outside the paper. A
parameter keeps its name where a keyword, an attribute or a string of the code has the same name, since it may be passed by name; and
every name is kept in code that looks at names (`__name__`, `locals()`, ...).
"""

import ast
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from featureprism.lab.modules import (
    OURS,
    Definition,
    is_in,
    is_readable,
    is_text,
    module_of,
    read_module,
    registered,
)

LOOKS_AT_NAMES = {"__name__", "__qualname__", "__code__", "locals", "globals", "vars", "eval", "exec"}
MEANT = {"ClassVar", "InitVar", "KW_ONLY"}  # annotations that a dataclass obeys
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def normal_form(write: Callable[["Writer"], Any], packages: frozenset[str]) -> str:
    """What `write` puts down, followed by every definition within `packages` that it names, directly or through others."""
    names = Writer(packages, frozenset())
    names.finish(write)  # only to learn which names may be passed by name
    form = Writer(packages, frozenset(names.spoken), keeps_names=bool(names.spoken & LOOKS_AT_NAMES))
    form.finish(write)
    return "\n".join(form.texts)


class Writer:
    """Texts of definitions and the numbers of those that they name."""

    def __init__(self, packages: frozenset[str], kept: frozenset[str], keeps_names: bool = False) -> None:
        self.packages, self.kept, self.keeps_names = packages, kept, keeps_names
        self.texts: list[str] = []
        self.spoken: set[str] = set()  # keywords, attributes and strings of the code
        self._numbers: dict[Definition, int] = {}
        self._waiting: list[Definition] = []
        self._modules: set[str] = set()

    def finish(self, write: Callable[["Writer"], Any]) -> None:
        """Write, and go on until every definition that was named is written."""
        write(self)
        while self._waiting:
            self._write_definition(*self._waiting.pop(0))

    def definition(self, module: str, name: str) -> str:
        """The number of a definition within the packages, which will be written; the plain name of anything else."""
        if not (is_in(module, self.packages) and is_readable(module)):
            return self._outside(module, name)
        top = read_module(module)
        if name in top.definitions:
            return self._number((module, name))
        whole = module_of(module, name)
        if whole is not None:
            return self.module(whole)
        if name in top.imports:
            target, inner = top.imports[name]
            return self.module(target) if inner is None else self.definition(target, inner)
        return name

    def add(self, node: ast.AST, module: str, free: Iterable[str] = ()) -> list[str]:
        """Write a function or statement of a module; returns its free names in the order in which they appear."""
        normal = _Normal(self, module, set(free))
        self.texts.append(ast.unparse(normal.visit(deepcopy(node))))
        return [name for scope, name in normal.numbers if scope == 0]

    def _write_definition(self, module: str, name: str) -> None:
        if name == "*":
            names = read_module(module).definitions
            self.texts.append(" ".join(f"{each}={self._number((module, each))}" for each in names))
        elif name:
            registered_too = [
                each for each in registered().get((module, name), ()) if is_in(each[0], self.packages)
            ]
            self.texts.append(" ".join(map(self._number, [(module, name), *registered_too])))
            for statement in read_module(module).definitions[name]:
                self.add(statement, module)
        else:
            for statement in read_module(module).nameless:
                self.add(statement, module)

    def module(self, module: str) -> str:
        """A module that is handed over as a whole."""
        if is_in(module, self.packages) and is_readable(module):
            return self._number((module, "*"))
        return module

    def _outside(self, module: str, name: str) -> str:
        """Library functions count by name, wherever in featureprism they live."""
        return f"{OURS}.{name}" if is_in(module, frozenset({OURS})) else f"{module}.{name}"

    def _number(self, definition: Definition) -> str:
        if definition not in self._numbers:
            self._numbers[definition] = len(self._numbers)
            self._waiting.append(definition)
            if definition[0] not in self._modules:
                self._modules.add(definition[0])
                self._waiting.append((definition[0], ""))
        kept = f"_{definition[1]}" if self.keeps_names else ""
        return f"_d{self._numbers[definition]}{kept}"


class _Normal(ast.NodeTransformer):
    """One statement with its local names numbered and its other names resolved."""

    def __init__(self, writer: Writer, module: str, free: set[str]) -> None:
        self.writer, self.module, self.top = writer, module, read_module(module)
        self.numbers: dict[tuple[int, str], str] = {}
        # each with its number, its names, and those of its parameters that keep their names
        self.scopes: list[tuple[int, set[str], set[str]]] = [(0, free, set())]
        self.num_scopes = 1
        self.is_class_body = [False]

    # names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in LOOKS_AT_NAMES:
            self.writer.spoken.add(node.id)
        is_field = self.is_class_body[-1] and isinstance(node.ctx, ast.Store)
        return ast.Name(node.id if is_field else self._name(node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.writer.spoken.add(node.attr)
        if isinstance(node.value, ast.Name) and self._local(node.value.id) is None:
            imported = self.top.imports.get(node.value.id)
            whole = module_of(*imported) if imported and node.value.id not in self.top.definitions else None
            if whole is not None and is_in(whole, self.writer.packages | {OURS}):
                return ast.Name(self.writer.definition(whole, node.attr), node.ctx)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.writer.spoken.add(node.value)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg:
            self.writer.spoken.add(node.arg)
        return self.generic_visit(node)

    def _name(self, name: str) -> str:
        local = self._local(name)
        if local is not None:
            return local
        if name in self.top.definitions:
            return self.writer.definition(self.module, name)
        if name in self.top.imports:
            target, inner = self.top.imports[name]
            return self.writer.module(target) if inner is None else self.writer.definition(target, inner)
        return name

    def _local(self, name: str) -> str | None:
        """The number of a local variable; None for a name that no scope binds."""
        for scope, names, kept in reversed(self.scopes):
            if name in names:
                if self.writer.keeps_names or name in kept:
                    return name
                return self.numbers.setdefault((scope, name), f"_v{len(self.numbers)}")
        return (
            name if self.is_class_body[-1] and name not in self.top.definitions | self.top.imports else None
        )

    # scopes

    def _inside(self, names: set[str], kept: set[str], visit: Callable[[], Any]) -> Any:
        self.scopes.append((self.num_scopes, names, kept))
        self.num_scopes += 1
        self.is_class_body.append(False)
        result = visit()
        self.is_class_body.pop()
        self.scopes.pop()
        return result

    def _visit_function(self, node: Any) -> ast.AST:
        is_registered = any("register" in ast.unparse(each) for each in getattr(node, "decorator_list", []))
        if hasattr(node, "decorator_list"):
            if not self.is_class_body[-1]:
                node.name = self._name(node.name)
            node.body = _without_text(node.body)
            node.decorator_list = [self.visit(each) for each in node.decorator_list]
            node.returns = self._annotation(node.returns)
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        node.args.kw_defaults = [each and self.visit(each) for each in node.args.kw_defaults]
        parameters = [a for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        for parameter in parameters:
            if parameter.annotation is not None and is_registered:
                parameter.annotation = self.visit(parameter.annotation)
            else:
                parameter.annotation = self._annotation(parameter.annotation)
        body = node.body if isinstance(node.body, list) else [node.body]
        given = {parameter.arg for parameter in parameters}

        def visit() -> list[Any]:
            for parameter in parameters:
                parameter.arg = self._name(parameter.arg)
            return self._visit_all(body)

        visited = self._inside(given | _bound(body), given & self.writer.kept, visit)
        node.body = (visited or [ast.Pass()]) if isinstance(node.body, list) else visited[0]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if not self.is_class_body[-1]:
            node.name = self._name(node.name)
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.bases = [self.visit(each) for each in node.bases]
        node.keywords = [self.visit(each) for each in node.keywords]
        self.is_class_body.append(True)
        node.body = self._visit_all(_without_text(node.body)) or [ast.Pass()]
        self.is_class_body.pop()
        return node

    def _visit_comprehension(self, node: Any) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)  # evaluated outside
        targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}

        def visit() -> None:
            for generator in node.generators:
                generator.target = self.visit(generator.target)
                if generator is not first:
                    generator.iter = self.visit(generator.iter)
                generator.ifs = [self.visit(each) for each in generator.ifs]
            for part in ("key", "value", "elt"):
                if hasattr(node, part):
                    setattr(node, part, self.visit(getattr(node, part)))

        self._inside(targets, set(), visit)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815

    # statements

    def _visit_all(self, body: list[Any]) -> list[Any]:
        visited = [self.visit(statement) for statement in body]
        return [statement for statement in visited if statement is not None]

    def visit_Import(self, node: Any) -> None:
        """Imported names are resolved wherever they are used."""

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        meant = [n for n in ast.walk(node.annotation) if isinstance(n, ast.Name) and n.id in MEANT]
        annotation = self._annotation(node.annotation) or ast.Constant(None)
        if meant:
            annotation = ast.Tuple([ast.Name(n.id, ast.Load()) for n in meant] + [annotation], ast.Load())
        if self.is_class_body[-1]:
            node.value = node.value and self.visit(node.value)
        else:
            node.target, node.value = self.visit(node.target), node.value and self.visit(node.value)
        node.annotation = annotation
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = node.name and self._name(node.name)
        return self.generic_visit(node)

    def visit_MatchAs(self, node: Any) -> ast.AST:
        node.name = node.name and self._name(node.name)
        return self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # noqa: N815

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = node.rest and self._name(node.rest)
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._name(name) for name in node.names]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(node, ast.stmt) and isinstance(body, list) and not body:  # it held imports alone
            body.append(ast.Pass())
        return node

    def _annotation(self, node: ast.expr | None) -> ast.expr | None:
        """The paper's classes that an annotation names."""
        names = []
        for part in ast.walk(node) if node is not None else ():
            text = part.id if isinstance(part, ast.Name) else getattr(part, "value", None)
            if isinstance(text, str) and (text in self.top.definitions or text in self.top.imports):
                name = self._name(text)
                names += [name] if name.startswith("_d") else []
        return (
            ast.Tuple([ast.Name(name, ast.Load()) for name in dict.fromkeys(names)], ast.Load())
            if names
            else None
        )


def _bound(body: list[Any]) -> set[str]:
    """The names that the statements of a function bind in its scope."""
    bound, outer = set[str](), set[str]()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
            continue
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, COMPREHENSIONS):
            bound |= {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
            continue
        elif isinstance(node, ast.Global | ast.Nonlocal):
            outer |= set(node.names)
        bound |= {name for field in ("name", "rest") if isinstance(name := getattr(node, field, None), str)}
        waiting += ast.iter_child_nodes(node)
    return bound - outer


def _without_text(body: list[ast.stmt]) -> list[ast.stmt]:
    return [statement for statement in body if not is_text(statement)]
