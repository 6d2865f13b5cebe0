"""Which methods of the store a function can call, read from its code: more than it ever will, never less.

From the handler on, every name that a piece of code mentions is followed to what it stands for in its module. A
mentioned attribute is followed into every class that was mentioned so far; nothing is known about types.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from infra.local.dynamodb import ROOT
from millrace.stores.interface import Store

PLACES = {"millrace": ROOT / "shared", "functions": ROOT}
METHODS = frozenset(name for name in vars(Store) if not name.startswith("_"))


@cache
def _module(name: str) -> dict[str, ast.stmt] | None:
    """What a module's names stand for; None for one that is not ours, or the store's own."""
    base = PLACES.get(name.partition(".")[0])
    if base is None or name.startswith("millrace.stores"):
        return None
    path = base.joinpath(*name.split("."))
    files = [one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()]
    return dict(_named(ast.parse(files[0].read_text("utf-8")))) if files else None


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for_types = {id(part) for node in tree.body if _is_for_types(node) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import) and id(node) not in for_types:
            yield from ((alias.asname or alias.name, node) for alias in node.names)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from (
                (name.id, node) for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _original(node: ast.ImportFrom, name: str) -> str:
    return next(alias.name for alias in node.names if (alias.asname or alias.name) == name)


def _submodule(module: str, name: str) -> str | None:
    """The module that a name stands for in another one, where it stands for one."""
    node = (_module(module) or {}).get(name)
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return None
    inside = f"{node.module}.{_original(node, name)}"
    return inside if _module(inside) is not None else None


class _Walk:
    """From one handler, until nothing new is mentioned."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._attributes: set[str] = set()
        self._methods: dict[str, list[tuple[str, ast.FunctionDef]]] = defaultdict(list)
        self._todo: list[tuple[str, ast.AST]] = []

    def go(self, module: str, name: str) -> set[str]:
        self._name(module, name)
        while self._todo:
            where, node = self._todo.pop()
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    self._name(where, part.id)
                elif isinstance(part, ast.Attribute):
                    self._attribute(part.attr)
                    if isinstance(part.value, ast.Name) and (inside := _submodule(where, part.value.id)):
                        self._name(inside, part.attr)
        return self._attributes & METHODS

    def _name(self, module: str, name: str) -> None:
        node = (_module(module) or {}).get(name)
        if isinstance(node, ast.ImportFrom) and node.module:
            self._name(node.module, _original(node, name))
        elif node is not None and (module, node.lineno) not in self._seen:
            self._seen.add((module, node.lineno))
            if isinstance(node, ast.ClassDef):
                self._class(module, node)
            elif not isinstance(node, ast.Import):
                self._todo.append((module, node))

    def _class(self, module: str, node: ast.ClassDef) -> None:
        """Its methods wait until they are mentioned; what Python calls by itself does not."""
        for part in (*node.bases, *node.decorator_list, *node.body):
            if not isinstance(part, ast.FunctionDef):
                self._todo.append((module, part))
                continue
            self._methods[part.name].append((module, part))
            if part.name.startswith("__") or part.name in self._attributes:
                self._todo.append((module, part))

    def _attribute(self, name: str) -> None:
        if name not in self._attributes:
            self._attributes.add(name)
            self._todo += self._methods[name]


def reachable_methods(handler: str) -> set[str]:
    """Methods of the store that can be called when this handler is."""
    module, _, name = handler.rpartition(".")
    return _Walk().go(module, name)
