"""The product's source for the tests of this package: modules, their imports, classes and docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("box", "lua", "console")


@dataclass(frozen=True)
class Import:
    """An import of one module by another one."""

    importer: str
    imported: str
    line: int
    is_annotation: bool
    """True if the import is below `if TYPE_CHECKING:`, so that it never runs."""


@dataclass(frozen=True)
class Module:
    """One Python file of the product. `path` is relative to the repository, `name` as Python imports it."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


@lru_cache
def modules() -> dict[str, Module]:
    """Return all modules of the product by name."""
    found = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            path = file.relative_to(ROOT)
            parts = path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts
            name = ".".join(parts)
            found[name] = Module(name, str(path), file.read_text())
    return found


def _is_type_checking(test: ast.expr) -> bool:
    """Return whether a condition is `TYPE_CHECKING` or `typing.TYPE_CHECKING`."""
    return getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def _statements(tree: ast.AST, *, is_annotation: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield import statements at every depth, also in functions, and whether they are for annotations only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, is_annotation
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _statements(ast.Module(node.body, []), is_annotation=True)
            yield from _statements(ast.Module(node.orelse, []), is_annotation=is_annotation)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):  # expressions have no imports in them
            yield from _statements(node, is_annotation=is_annotation)


def _imported(statement: ast.Import | ast.ImportFrom, importer: Module) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    else:
        base = statement.module or ""
        if statement.level:
            parts = importer.name.split(".")[: None if importer.is_package else -1]
            parts = parts[: len(parts) - statement.level + 1]
            base = ".".join([*parts, base] if base else parts)
        # `from package import name`: the name may be a module of its own.
        names = [whole if (whole := f"{base}.{alias.name}") in modules() else base for alias in statement.names]
    yield from dict.fromkeys(name for name in names if name in modules())


@lru_cache
def imports() -> tuple[Import, ...]:
    """Yield every import of one module of the product by another one."""
    return tuple(
        Import(module.name, imported, statement.lineno, is_annotation)
        for module in modules().values()
        for statement, is_annotation in _statements(module.tree)
        for imported in _imported(statement, module)
        if imported != module.name
    )
