"""Constraints and foreign keys in formats: what 2.11 refuses is refused with its code and text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from box import BoxError, Node
from box.testing import Cluster

from .box_support import Box, Run

SETUP = """
local function func(name, body, options)
    box.schema.func.create(name, table.update({body = body, is_deterministic = true}, options or {}))
end
table.update = table.update or function(t, u) for k, v in pairs(u) do t[k] = v end return t end
func('not_13', 'function(value, name) return value ~= 13 end')
func('fails', 'function(value, name) error("oops") end')
func('named', 'function(tuple, name) return tuple.a ~= 13 and name == "own", "more" end')
func('expression', '"a" > 1', {language = 'SQL_EXPR'})
func('two_names', '"a" > "b"', {language = 'SQL_EXPR'})
box.schema.func.create('no_body')
box.schema.func.create('random', {body = 'function() return true end'})
parent = box.schema.create_space('parent', {format = {{'a', 'unsigned'}, {'b', 'string'}, {'c', 'unsigned'}}})
parent:create_index('pk')
parent:create_index('bc', {parts = {'c', 'b'}})
function space(options, rows)
    if box.space.s ~= nil then box.space.s:drop() end
    s = box.schema.create_space('s', options)
    s:create_index('pk')
    for _, row in ipairs(rows or {}) do s:insert(row) end
end
function why(f, ...)
    local ok, problem = pcall(f, ...)
    return ok and 'done' or type(problem) == 'cdata' and ('%d: %s'):format(problem.code, problem) or problem
end
"""


async def refused(box: Box, expression: str, expected: str) -> None:
    assert await box(f"return why(function() return {expression} end)") == expected, expression


NOT_FOUND = "foreign tuple was not found"
WRITES = [
    (
        "{format = {{'a', 'unsigned', constraint = 'not_13'}}}",
        "{13}",
        "235: Check constraint 'not_13' failed for field '1 (a)'",
    ),
    (
        "{format = {{'a', 'unsigned', constraint = {x = 'not_13'}}}}",
        "{13}",
        "235: Check constraint 'x' failed for field '1 (a)'",
    ),
    ("{format = {{'a', 'unsigned', constraint = {'not_13'}}}}", "{1}", "done"),
    (
        "{format = {{'a', 'unsigned', constraint = 'not_13'}, {'b', 'string'}}}",
        "{13, 5}",
        "235: Check constraint 'not_13' failed for field '1 (a)'",
    ),
    (
        "{format = {{'a', 'unsigned', constraint = 'not_13'}}}",
        "{'x'}",
        "23: Tuple field 1 (a) type does not match one required by operation: expected unsigned, got string",
    ),
    ("{format = {{'a', 'unsigned'}, {'b', 'any', is_nullable = true, constraint = 'fails'}}}", "{1, nil}", "done"),
    (
        "{format = {{'a', 'unsigned'}, {'b', 'any', is_nullable = true, constraint = 'fails'}}}",
        "{1, 1}",
        "235: Check constraint 'fails' failed for field '2 (b)'",
    ),
    ("{format = {{'a', 'unsigned'}}, constraint = {own = 'named'}}", "{1}", "done"),
    (
        "{format = {{'a', 'unsigned'}}, constraint = {own = 'named'}}",
        "{13}",
        "236: Check constraint 'own' failed for tuple",
    ),
    (
        "{format = {{'a', 'unsigned'}}, constraint = {other = 'named'}}",
        "{1}",
        "236: Check constraint 'other' failed for tuple",
    ),
    (
        "{format = {{'a', 'unsigned'}}, constraint = 'expression'}",
        "{1}",
        "236: Check constraint 'expression' failed for tuple",
    ),
    ("{format = {{'a', 'unsigned'}}, constraint = 'expression'}", "{2}", "done"),
    (
        "{format = {{'id', 'unsigned', constraint = 'expression'}}}",
        "{1}",
        "235: Check constraint 'expression' failed for field '1 (id)'",
    ),
    (
        "{format = {{'a', 'unsigned'}, {'b', 'any'}}, constraint = 'two_names'}",
        "{1, box.NULL}",
        "236: Check constraint 'two_names' failed for tuple",
    ),
    ("{format = {{'a', 'unsigned', foreign_key = {space = 'parent', field = 'a'}}}}", "{1}", "done"),
    ("{format = {{'a', 'unsigned', foreign_key = {space = 'parent', field = 1}}}}", "{1}", "done"),
    (
        "{format = {{'a', 'unsigned', foreign_key = {space = 'parent', field = 'a'}}}}",
        "{9}",
        f"239: Foreign key constraint 'parent' failed for field '1 (a)': {NOT_FOUND}",
    ),
    (
        "{format = {{'a', 'unsigned', foreign_key = {key = {space = 'parent', field = 'c'}}}}}",
        "{1}",
        "239: Foreign key constraint 'key' failed for field '1 (a)': foreign index was not found",
    ),
    (
        "{format = {{'a', 'unsigned'}, {'x', 'any', foreign_key = {space = 'parent', field = 'a'}}}}",
        "{1, 'one'}",
        "239: Foreign key constraint 'parent' failed for field '2 (x)': wrong key type",
    ),
    (
        "{format = {{'a', 'unsigned'}, {'b', 'unsigned', foreign_key = {field = 'a'}}}}",
        "{1, 1}",
        f"239: Foreign key constraint 's' failed for field '2 (b)': {NOT_FOUND}",
    ),
    ("{foreign_key = {k = {space = 'parent', field = {[2] = 'b', [3] = 'c'}}}}", "{1, 'one', 1}", "done"),
    (
        "{foreign_key = {k = {space = 'parent', field = {[2] = 'b', [3] = 'c'}}}}",
        "{1, 'one', 2}",
        f"240: Foreign key constraint 'k' failed: {NOT_FOUND}",
    ),
    ("{foreign_key = {k = {space = 'parent', field = {[2] = 'b', [3] = 'c'}}}}", "{1, box.NULL, box.NULL}", "done"),
    ("{foreign_key = {k = {space = 'parent', field = {[2] = 'b', [3] = 'c'}}}}", "{1}", "done"),
    (
        "{foreign_key = {k = {space = 'parent', field = {[2] = 'b', [3] = 'c'}}}}",
        "{1, 'one'}",
        "240: Foreign key constraint 'k' failed: extract key failed",
    ),
    (
        "{foreign_key = {k = {space = 'parent', field = {[2] = 'b', [3] = 'c'}}}}",
        "{1, 'one', box.NULL}",
        "240: Foreign key constraint 'k' failed: wrong key type",
    ),
    (
        "{foreign_key = {k = {space = 'parent', field = {x = 'b', [3] = 'c'}}}}",
        "{1, 'one', 1}",
        "240: Foreign key constraint 'k' failed: wrong local field name",
    ),
]


def test_what_is_written_is_checked(run: Run) -> None:
    """All ways to write a tuple check it: insert, replace, update, upsert, in a transaction or not."""

    async def body(box: Box) -> None:
        await box(SETUP + "parent:insert{1, 'one', 1}")
        for options, row, expected in WRITES:
            await box(f"space({options})")
            await refused(box, f"s:insert({row})", expected)
            await refused(box, f"box.atomic(s.replace, s, {row})", expected)
        await box("space{format = {{'a', 'unsigned'}, {'b', 'unsigned', constraint = 'not_13'}}} s:insert{1, 12}")
        failed = "235: Check constraint 'not_13' failed for field '2 (b)'"
        await refused(box, "s:update(1, {{'+', 2, 1}})", failed)
        await refused(box, "s:upsert({1, 1}, {{'+', 2, 1}})", failed)
        await refused(box, "s:upsert({1, 13}, {})", failed)
        await refused(box, "s:upsert({2, 13}, {})", failed)
        assert await box("return s:select{}") == [[1, 12]]

    run(body)


def test_errors_name_the_constraint_and_the_field(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(SETUP + "space{format = {{'a', 'unsigned', constraint = {c = 'not_13'}}}}")
        await box("_, problem = pcall(s.insert, s, {13})")
        assert await box("return problem.name, problem.field_path, problem.field_id") == ["c", "1 (a)", 0]

    run(body)


REFERRED = "238: Foreign key 'k' integrity check failed: tuple is referenced"


@pytest.mark.parametrize("mvcc", [False, True])
def test_what_a_foreign_key_needs_stays(run: Run, mvcc: bool) -> None:
    """A referred tuple is neither removed nor replaced by one with other fields; its space is not emptied."""

    async def body(box: Box) -> None:
        await box(SETUP + "parent:insert{1, 'one', 1} parent:insert{2, 'two', 2}")
        key = "{k = {space = 'parent', field = {x = 'b', y = 'c'}}}"
        form = "{{'id', 'unsigned'}, {'x', 'string'}, {'y', 'unsigned'}}"
        await box(f"space({{format = {form}, foreign_key = {key}}}, {{{{7, 'one', 1}}}})")
        await refused(box, "parent:delete(2)", "238: Foreign key 'k' integrity check failed: index was not found")
        await box("s:create_index('xy', {parts = {'x', 'y'}, unique = false})")
        await refused(box, "parent:delete(1)", REFERRED)
        await refused(box, "parent.index.bc:delete{1, 'one'}", REFERRED)
        await refused(box, "parent:update(1, {{'=', 2, 'uno'}})", REFERRED)
        await refused(box, "parent:replace{1, 'uno', 1}", REFERRED)
        await refused(box, "parent:upsert({1, 'x', 1}, {{'=', 3, 5}})", REFERRED)
        await refused(box, "parent:replace{1, 'one', 1, 'more'}", "done")
        await refused(box, "parent:update(1, {{'=', 4, 'less'}})", "done")
        await refused(box, "parent:delete(2)", "done")
        for change in (
            "parent:truncate()",
            "parent:drop()",
            "(function() parent.index.bc:drop() parent.index.pk:drop() end)()",
        ):
            await refused(box, change, "12: Can't modify space 'parent': space is referenced by foreign key")
            await box("if parent.index.bc == nil then parent:create_index('bc', {parts = {'c', 'b'}}) end")
        await box("s:delete(7)")
        await refused(box, "parent:delete(1)", "done")
        await refused(box, "parent:truncate()", "done")
        await box("s:drop()")
        await refused(box, "parent:drop()", "done")

    run(body, memtx_use_mvcc_engine=mvcc)


DEFINITIONS = [
    ("constraint = 'nobody'", "1: Illegal parameters, constraint function was not found by name 'nobody'"),
    ("constraint = {5}", "1: Illegal parameters, constraint function is expected to be a string, but got number"),
    ("format = {{'a', constraint = 5}}", "1: Illegal parameters, format[1]: constraint must be string or table"),
    (
        "constraint = 'no_body'",
        "234: Failed to create constraint 'no_body' in space 't': constraint lua function 'no_body' must have "
        "persistent body",
    ),
    (
        "constraint = 'random'",
        "234: Failed to create constraint 'random' in space 't': constraint function 'random' must be deterministic",
    ),
    (
        "format = {{'a', constraint = 'two_names'}}",
        "234: Failed to create constraint 'two_names' in space 't': Number of arguments in a SQL field constraint "
        "function is greater than one",
    ),
    ("format = {{'a', foreign_key = 5}}", "1: Illegal parameters, format[1]: foreign key must be a table"),
    (
        "format = {{'a', foreign_key = {space = 'x', field = 'y'}}}",
        "1: Illegal parameters, format[1]: foreign key: space x was not found",
    ),
    (
        "format = {{'a', foreign_key = {x = {space = 'parent'}}}}",
        "1: Illegal parameters, format[1]: foreign key: field must be specified",
    ),
    (
        "foreign_key = {field = 'x'}",
        "1: Illegal parameters, foreign key: field must be a table with local field -> foreign field mapping",
    ),
    (
        "foreign_key = {field = {x = true}}",
        "1: Illegal parameters, foreign key: foreign field must be string or number",
    ),
    ("foreign_key = {field = {x = 'y'}, more = 1}", "1: Illegal parameters, foreign key: unexpected parameter 'more'"),
    (
        "format = {{'a', foreign_key = {space = 'volatile', field = 'a'}}}",
        "237: Failed to create foreign key 'volatile' in space 't': foreign key from non-temporary space can't refer "
        "to temporary space",
    ),
    (
        "format = {{'a', foreign_key = {space = 'own', field = 'a'}}}",
        "237: Failed to create foreign key 'own' in space 't': foreign key from non-local space can't refer to local "
        "space",
    ),
]
RAW = [
    ("{constraint = 1}, {}", "111: Wrong space options: constraint field is expected to be a MAP"),
    ("{constraint = {a = 'x'}}, {}", "111: Wrong space options: constraint function ID is expected to be a number"),
    (
        "{constraint = {a = 700}}, {}",
        "234: Failed to create constraint 'a' in space 'r': constraint function '700' was not found by ID",
    ),
    ("{foreign_key = {a = {field = 1}}}, {}", "111: Wrong space options: field mapping is expected to be a map"),
    (
        "{foreign_key = {a = {space = 9000, field = {a = 'b'}}}}, {}",
        "237: Failed to create foreign key 'a' in space 'r': foreign space '9000' was not found by id",
    ),
    (
        "MAP, {{name = 'f', type = 'any', foreign_key = {a = {field = 1.5}}}}",
        "141: Wrong space format field 1: foreign key: field must be number or string",
    ),
    (
        "MAP, {{name = 'f', type = 'any', foreign_key = {[''] = {field = 1}}}}",
        "141: Wrong space format field 1: foreign key name isn't a valid identifier",
    ),
    (
        "MAP, {{name = 'f', type = 'any', foreign_key = {a = {x = 1}}}}",
        "141: Wrong space format field 1: foreign key definition is expected to be {[space=..,] field=..}",
    ),
]


def test_wrong_definitions_are_refused(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(SETUP + "box.schema.create_space('volatile', {temporary = true, format = {'a'}})")
        await box("box.schema.create_space('own', {is_local = true, format = {'a'}})")
        for options, expected in DEFINITIONS:
            await refused(box, f"box.schema.create_space('t', {{{options}}})", expected)
        await box("MAP = setmetatable({}, {__serialize = 'map'})")
        for arguments, expected in RAW:
            opts, form = arguments.split(", ", 1)
            await refused(box, f"box.space._space:insert{{900, 1, 'r', 'memtx', 0, {opts}, {form}}}", expected)

    run(body)


def test_a_format_that_changes_is_checked_against_what_is_there(run: Run) -> None:
    """New rules hold for stored tuples, too; an alter without them, or with other names, visits none."""

    async def body(box: Box) -> None:
        await box(SETUP + "space({format = {{'a', 'unsigned'}}}, {{12}, {13}})")
        failed = "235: Check constraint 'not_13' failed for field '1 (a)'"
        await refused(box, "s:format{{'a', 'unsigned', constraint = 'not_13'}}", failed)
        await refused(box, "s:alter{constraint = 'fails'}", "236: Check constraint 'fails' failed for tuple")
        await box("s:delete(13) s:format{{'a', 'unsigned', constraint = 'not_13'}} s:alter{constraint = 'expression'}")
        assert await box("return s:format()[1].constraint ~= nil, s.constraint ~= nil") == [True, True]
        await refused(box, "s:insert{13}", failed)
        await refused(box, "s:insert{1}", "236: Check constraint 'expression' failed for tuple")
        await refused(
            box, "box.schema.func.drop('not_13')", "71: Can't drop function 1: function is referenced by constraint"
        )
        await refused(box, "s:alter{constraint = {}}", "done")
        await refused(box, "s:format{{'a', 'unsigned'}}", "done")
        assert await box("return s:format()[1].constraint, s.constraint") == [None, None]
        await refused(box, "s:insert{1} and s:insert{13} and box.schema.func.drop('not_13')", "done")

    run(body)


def test_a_rollback_restores_what_a_foreign_key_needs(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(SETUP + "parent:insert{1, 'one', 1}")
        await box("space({format = {{'a', 'unsigned', foreign_key = {k = {space = 'parent', field = 'a'}}}}}, {{1}})")
        await box("box.begin() s:format{} box.rollback()")
        await refused(box, "parent:delete(1)", REFERRED)
        await box("box.begin() s.index.pk:drop() box.space._space:delete(s.id) box.rollback()")
        await refused(box, "parent:delete(1)", REFERRED)
        await box("s:format{}")
        await refused(box, "parent:delete(1)", "done")

    run(body)


def test_fields_of_foreign_keys_count_from_one(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(SETUP + "space{format = {{'a', 'unsigned', foreign_key = {space = 'parent', field = 1}}}}")
        assert await box("return box.space._space:get(s.id).format[1].foreign_key.parent.field") == 0
        assert await box("return s:format()[1].foreign_key.parent.field") == 1
        await box("s:format(s:format()) s:alter{foreign_key = {k = {space = 'parent', field = {[1] = 'a'}}}}")
        assert await box("return s:format()[1].foreign_key.parent.field") == 1
        assert await box("return s.foreign_key.k.field[1], s.foreign_key.k.space == parent.id") == ["a", True]

    run(body)


def test_rules_outlive_starts_and_reach_replicas(tmp_path: Path) -> None:
    """Constraints come back from a snapshot and from the log, and hold on an instance that has joined."""
    checks = "return why(s.insert, s, {13}), why(parent.delete, parent, 1)"
    expected = [
        "235: Check constraint 'not_13' failed for field '1 (a)'",
        "238: Foreign key 'parent' integrity check failed: tuple is referenced",
    ]
    globals_ = "parent, s = box.space.parent, box.space.s " + SETUP[SETUP.index("function why") :]

    async def main() -> None:
        async with Node(str(tmp_path)) as node:
            await node.eval(SETUP + "parent:insert{1, 'one', 1}")
            form = "{{'a', 'unsigned', constraint = 'not_13', foreign_key = {space = 'parent', field = 'a'}}}"
            await node.eval(f"space({{format = {form}}}, {{{{1}}}})")
            assert await node.eval(checks) == expected
        for _ in range(2):
            async with Node(str(tmp_path)) as node:
                assert await node.eval(globals_ + checks) == expected
                await node.eval("box.snapshot()")

    asyncio.run(main())


def test_a_replica_has_the_rules() -> None:
    async def main() -> None:
        async with Cluster(2) as cluster:
            leader = cluster.leader
            (other,) = cluster.followers
            await leader.eval(SETUP + "parent:insert{1, 'one', 1}")
            await leader.eval("space{format = {{'a', 'unsigned', foreign_key = {space = 'parent', field = 'a'}}}}")
            await cluster.wait_synced()
            await cluster.promote(other)
            with pytest.raises(BoxError, match="was not found"):
                await other.eval("box.space.s:insert{9}")

    asyncio.run(main())
