"""Plays scenarios while sets are iterated in random order, because no result of a run may depend on that order.

    python -m test.unit.simulation.any_order SEED,SEED... SCENARIO.json...

Plays all scenarios once for each seed of the shuffling. Prints for each run the digest of its trace, and the places so
far where a set of other values than names and numbers was iterated.

The order of a set of objects follows from their addresses: it is nearly always the same, and then once is not. So the
product is compiled with every loop, comprehension, `*argument` and iterating call passed through a function that
shuffles sets.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from random import Random
from types import CodeType, ModuleType
from typing import Any, Final

_PACKAGES: Final = ("box", "lua")
_CALLS: Final = {"list", "tuple", "iter", "next", "enumerate", "map", "filter", "zip", "dict", "min", "max", "deque"}
"""Names of functions that iterate over their arguments."""
_NAME: Final = "__in_any_order__"


class AnyOrder:
    """Shuffles sets. `places` are the places where it did so, with the types of the sets' elements."""

    def __init__(self) -> None:
        self.places: dict[str, set[str]] = {}
        self._random = Random()

    def shuffle_by(self, chance: int) -> None:
        """Begin to shuffle in the orders that follow from a seed."""
        self._random = Random(chance)

    def __call__(self, values: Any, place: str) -> Any:
        """Return an iterable unchanged, or the elements of a set in random order."""
        if not isinstance(values, (set, frozenset)) or len(values) < 2:
            return values
        types = {type(value).__name__ for value in values}
        if not types <= {"str", "bytes", "int", "float", "tuple", "NoneType"}:
            self.places.setdefault(place, set()).update(types)
        found = list(values)
        self._random.shuffle(found)
        return found


class _Compiler(ast.NodeTransformer):
    """Rewrites loops and calls so that what they iterate over passes through `AnyOrder`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _asking(self, values: ast.expr) -> ast.expr:
        place = ast.Constant(f"{self._path}:{values.lineno}")
        return ast.copy_location(ast.Call(ast.Name(_NAME, ast.Load()), [values, place], []), values)

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._asking(node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if not node.is_async:
            node.iter = self._asking(node.iter)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._asking(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            node.args = [one if isinstance(one, ast.Starred) else self._asking(one) for one in node.args]
        return node


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = ast.fix_missing_locations(_Compiler(self.path).visit(ast.parse(self.get_data(self.path))))
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.split(".")[0] in _PACKAGES else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def main(chances: str, *scenarios: str) -> None:
    """Play the scenarios that the command line names, in one process: compiling takes longer than the runs."""
    any_order = AnyOrder()
    setattr(builtins, _NAME, any_order)
    sys.meta_path.insert(0, _Finder())
    from box.testing.simulation.run import Scenario, play  # only now, so that it is compiled here

    for chance in chances.split(","):
        any_order.shuffle_by(int(chance))
        for path in scenarios:
            print(play(Scenario.from_json(Path(path).read_text()), deadline=300).digest, sorted(any_order.places))


if __name__ == "__main__":
    main(*sys.argv[1:])
