"""Programs that write TAP; their last statement shows what the node has written to its standard output."""

from __future__ import annotations

from test.interop.lua_programs.source import Program, Rules, Source, steps_of

_READ = "io.stdout:flush() local f = io.open('output') local text = f:read('*a') f:close()"
_RULES: Rules = {
    "compared": ["<plain>", "<plain>", "{}", "{1, 2}", "{a = 1}", "{a = {b = 1}}", "nil", "box.NULL", "1LL", "0/0"],
    "message": ["'said'", "'said'", "'a\\nb'", "<value>", "nil"],
    "extra": ["{}", "{a = 1}", "{got = 1}", "{strict = true}", "nil", "<value>"],
    "test": ["t", "t", "u"],
    "is": ["is", "isnt", "is_deeply", "like", "unlike"],
    "type": ["isnil", "isnumber", "isstring", "istable", "isboolean", "isfunction"],
    "typed": ["isudata", "iscdata"],
    "type_name": ["'int'", "'uint64_t'", "'void *'", "'nope'", "'fiber'", "<value>"],
    "step": [
        "<test>:plan(<small>)",
        "<test>:ok(<value>, <message>, <extra>)",
        "<test>:ok(<args>)",
        "<test>:fail(<message>, <extra>)",
        "<test>:skip(<message>, <extra>)",
        "<test>:<is>(<compared>, <compared>, <message>, <extra>)",
        "<test>:<is>(<compared>, <compared>, 'said')",
        "<test>:is_deeply({<compared>, a = <compared>}, {<compared>, a = <compared>}, 'deep')",
        "<test>:<type>(<compared>, <message>, <extra>)",
        "<test>:<typed>(<compared>, <type_name>, <message>)",
        "<test>:diag(<message>)",
        "<test>:diag('%s %d', <value>, <value>)",
        "<test>:check()",
        "u = t:test(<message>) return u.level, u.name",
        "t:test('inner', function(i) i:plan(<small>) i:ok(<value>, 'in') i:ok(true, 'in') end)",
        "t:test('inner', function(i, a) i:plan(1) i:is(a, <value>, 'passed') end, <value>)",
        "t:test('inner', <value>)",
        "t.strict = <boolean> return t.strict",
        "<test>.<is>(<args>)",
        "<test>:<type>(<args>)",
        "t.<field>",
        "require('tap').test(<args>).name",
        "t.planned, t.total, t.failed",
        "t:nope()",
    ],
    "field": ["level", "name", "total", "failed", "planned", "trace", "strict", "parent", "checked", "nope"],
}
_tests = steps_of(
    _RULES,
    start=[
        f"{_READ} mark = #text",
        "t = require('tap').test('outer') t.trace = false u = t:test('second')",
    ],
    least=5,
    most=10,
)


def tap(source: Source) -> list[str]:
    """Tests and nested tests of every kind, and what they have written."""
    return [*_tests(source), f"{_READ} return text:sub(mark + 1)"]


_: Program = tap
