"""The layers ("floors") of the product: imports go down only.

`FLOORS` lists the layers, the top first. A part may import parts of lower floors, never of its own or a higher one, so
that packages form no ring. Modules of one part may import each other, without a ring. Imports below `if TYPE_CHECKING:`
never run; those that go up or close a ring are listed with their reasons, and the lists may only shrink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from test.unit.house.source import Import, imports, modules

FLOORS = (
    ("box.testing", "box.dbapi"),  # a replica set in simulated time; DB-API 2.0 over nodes of threads
    ("console", "box", "box.sync"),  # the commands and the suite runner; `from box import Node`; the same for threads
    ("box.embed",),  # an instance and its Lua runtime
    ("lua",),  # LuaJIT, fibers, the Lua modules and their Python halves
    ("box.instance",),  # one instance put together
    ("box.replication",),  # appliers, relays, joins
    ("box.iproto",),  # the server of the binary protocol
    ("box.sql",),  # statements of SQL, executed by SQLite over spaces
    ("box.txn",),  # transactions and the one door for writes
    ("box.schema", "box.spark"),  # the dictionary and its triggers; Spark, which knows files and the binary protocol
    ("box.session", "box.swim"),  # who is connected; membership of clusters of nodes
    ("box.index", "box.journal", "box.net"),  # tuples in memory, files, connections
    ("box.wire",),  # what travels and what is stored, as pure formats
    ("box.data",),  # values, tuples and keys
    ("box.errinj", "box.log"),  # asked by everything above
    (
        "box.apart",
        "box.eager",
        "box.events",
        "box.forks",
        "box.waiters",
        "box.long_work",
        "box.rate_limit",
        "box.slices",
    ),  # coroutines run at once, events and their watchers, waits, long work and its slices, rates
    ("box.errors",),
    ("box.error_codes", "box.exit_status", "box.version"),
)

ONLY = {
    "box.data": {"box.errors"},
    "box.index": {"box.data", "box.errors"},
    "box.journal": {"box.errinj", "box.errors", "box.forks", "box.rate_limit", "box.waiters", "box.wire"},
    # Files only; a stream follows a live node, and a writer sends it requests: as any client, over a connection.
    "box.spark": {"box.data", "box.errors", "box.exit_status", "box.journal", "box.net", "box.version", "box.wire"},
    "box.swim": {"box.data", "box.errors", "box.net", "box.wire"},
    "box.wire": {"box.data", "box.errors"},
}
"""Parts that may import less than their floor allows."""

UPWARD = {
    "A session carries what the schema and the transactions put into it; it calls nothing of theirs.": {
        "box.session -> box.schema.access",
        "box.session -> box.txn.transaction",
    },
}
"""Imports for annotations that go up, by the reason why they stay."""

RINGS = {
    "A change fires triggers and acts on the children of rows; both change rows.": {
        "box.sql.foreign_keys",
        "box.sql.row_changes",
        "box.sql.row_triggers",
    },
    "Expressions hold queries, and queries expressions: the compilers of the two call each other.": {
        "box.sql.calls",
        "box.sql.common_tables",
        "box.sql.expression_compiler",
        "box.sql.from_clause",
        "box.sql.query",
        "box.sql.type_names",
    },
    "A space asks its engine and its checks, whose methods are about spaces and their dictionary.": {
        "box.schema.rule_checks",
        "box.schema.schema",
        "box.schema.space",
        "box.schema.sql_hooks",
        "box.schema.storage_engine",
    },
    "PEP 249: a connection makes cursors, and a cursor tells its connection.": {
        "box.dbapi.database_connection",
        "box.dbapi.database_cursor",
    },
    "A server, its connections and their requests name each other.": {
        "box.iproto.connection",
        "box.iproto.dispatch",
        "box.iproto.interface",
        "box.iproto.learned_bodies",
        "box.iproto.request_streams",
        "box.iproto.served_calls",
        "box.iproto.served_statements",
        "box.iproto.server",
    },
    "The runtime makes the binding of `fiber`, which calls the runtime.": {"lua.bindings.fiber", "lua.runtime"},
}
"""Modules of one part that import each other in a circle, some for annotations only, by the reason why they stay."""

_LEVELS = {part: len(FLOORS) - number for number, floor in enumerate(FLOORS) for part in floor}


def part_of(module: str) -> str:
    """Return the most specific part that contains a module; `box` itself contains its facade only."""
    parts = [part for part in _LEVELS if module == part or (part != "box" and module.startswith(f"{part}."))]
    assert parts, f"{module} stands on no floor: give it one in FLOORS"
    return max(parts, key=len)


def is_downward(step: Import) -> bool:
    """Return whether an import stays inside its part or goes down to an allowed one."""
    importer, imported = part_of(step.importer), part_of(step.imported)
    if importer == imported:
        return True
    allowed = ONLY.get(importer)
    return _LEVELS[imported] < _LEVELS[importer] and (allowed is None or imported in allowed)


def place(step: Import) -> str:
    """Return `file:line: importer -> imported`."""
    return f"{modules()[step.importer].path}:{step.line}: {step.importer} -> {step.imported}"


def rings(steps: Iterable[Import]) -> Iterator[set[str]]:
    """Return sets of modules that reach each other: strongly connected components of two or more, by Tarjan's
    algorithm.
    """
    edges: dict[str, set[str]] = {}
    for step in steps:
        edges.setdefault(step.importer, set()).add(step.imported)
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> Iterator[set[str]]:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for target in sorted(edges.get(module, ())):
            if target not in order:
                yield from visit(target)
            if target in path:
                lowest[module] = min(lowest[module], lowest[target])
        if lowest[module] == order[module]:
            ring = set(path[path.index(module) :])
            del path[path.index(module) :]
            if len(ring) > 1:
                yield ring

    for module in sorted(edges):
        if module not in order:
            yield from visit(module)


def _lines(steps: Iterable[Import], within: Set[str] | None = None) -> str:
    """Return the places of all imports, or of those between modules of a set."""
    return "\n".join(place(step) for step in steps if within is None or {step.importer, step.imported} <= within)


def test_every_module_stands_on_a_floor() -> None:
    """Every module belongs to a floor, and every listed part exists."""
    assert {part_of(module) for module in modules()} == set(_LEVELS)


def test_imports_go_down_when_the_program_runs() -> None:
    """Imports that run go down, also inside functions. The facade `from box import Node` is the top."""
    upward = [step for step in imports() if not step.is_annotation and not is_downward(step)]
    assert not upward, f"upward imports:\n{_lines(upward)}"


def test_no_ring_of_modules_when_the_program_runs() -> None:
    steps = [step for step in imports() if not step.is_annotation]
    for ring in rings(steps):
        raise AssertionError(f"a ring:\n{_lines(steps, ring)}")


def test_upward_imports_for_annotations_are_those_with_a_reason() -> None:
    found = {f"{step.importer} -> {step.imported}": step for step in imports() if not is_downward(step)}
    listed = set().union(*UPWARD.values())
    new = [step for pair, step in found.items() if pair not in listed]
    assert not new, f"upward imports without a reason in UPWARD:\n{_lines(new)}"
    assert listed <= found.keys(), f"gone; take them out of UPWARD: {sorted(listed - found.keys())}"


def test_rings_for_annotations_are_those_with_a_reason() -> None:
    steps = [step for step in imports() if part_of(step.importer) == part_of(step.imported)]
    found = list(rings(steps))
    for ring in found:
        is_listed = any(ring <= listed for listed in RINGS.values())
        assert is_listed, f"a ring without a reason in RINGS:\n{_lines(steps, ring)}"
    gone = [sorted(listed - set().union(*found)) for listed in RINGS.values()]
    assert not any(gone), f"no longer in a ring; take them out of RINGS: {gone}"


def test_rings_are_found() -> None:
    """The search finds two separate rings, and leaves out a chain that leads to one."""

    def steps(*pairs: str) -> list[Import]:
        return [Import(pair[0], pair[1], 1, False) for pair in pairs]

    assert list(rings(steps("ab", "bc", "cd"))) == []
    found = list(rings(steps("ab", "bc", "ca", "cd", "ef", "fe", "da", "xa")))
    assert sorted(map(sorted, found)) == [["a", "b", "c", "d"], ["e", "f"]]
