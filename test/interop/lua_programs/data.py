"""Programs about tuples, spaces and their definitions."""

from __future__ import annotations

from test.interop.lua_programs.source import Source
from test.interop.random_lua import TABLES


def tuples(source: Source) -> list[str]:
    """A tuple and one of its methods."""
    fields = ", ".join(
        source.one(source.plain(), source.random.choice(TABLES)) for _ in range(source.random.randrange(1, 5))
    )
    op = source.one("=", "+", "-", "#", "!", "&", "|", "^", ":")
    return [
        f"t = box.tuple.new{{{fields}}}",
        source.one(
            f"t:update({{{{'{op}', {source.small()}, {source.plain()}}}}})",
            f"t:upsert({{{{'{op}', {source.small()}, {source.plain()}}}}})",
            f"t:transform({source.small()}, {source.small()}, {source.plain()})",
            f"t:find({source.plain()})",
            f"t:findall({source.small()}, {source.plain()})",
            f"t:totable({source.one('', source.small(), '1, ' + source.small())})",
            f"t:slice({source.small()})",
            f"t:unpack({source.one('', source.small())})",
            "t:bsize(), #t",
            f"t[{source.small()}]",
            "t:tomap()",
            f"t:next({source.one('', '0', '1', source.small())})",
            "json.encode(t)",
            "tostring(t)",
        ),
    ]


def _space(source: Source) -> list[str]:
    kind = source.one("unsigned", "integer", "string", "number", "scalar")
    made = [
        "s = box.schema.space.create('t')",
        f"pk = s:create_index('pk', {{parts = {{1, '{kind}'}}}})",
    ]
    rows = [f"s:replace{{{source.plain()}, {source.value()}}}" for _ in range(3)]
    return made + rows


def select(source: Source) -> list[str]:
    """A space with some tuples and a statement that finds or changes them."""
    iterator = source.one("EQ", "REQ", "GE", "GT", "LE", "LT", "ALL", "nope")
    key = source.one(source.plain(), f"{{{source.plain()}}}", "{}", "nil")
    return [
        *_space(source),
        source.one(
            f"s:select({key}, {{iterator = '{iterator}', limit = {source.small()}}})",
            f"s:select({key}, {{offset = {source.small()}}})",
            f"s:get({key})",
            f"s:count({key}, {{iterator = '{iterator}'}})",
            f"pk:{source.one('min', 'max')}({key})",
            f"s:pairs({key}, {{iterator = '{iterator}'}}):totable()",
            f"s:delete({key})",
            f"s:update({key}, {{{{'=', {source.small()}, {source.plain()}}}}})",
            f"s:upsert({{{source.plain()}, 1}}, {{{{'+', 2, {source.plain()}}}}})",
            f"s:insert({source.value()})",
            "s:len(), pk:len()",
        ),
        "s:select()",
    ]


def ddl(source: Source) -> list[str]:
    """Definitions of spaces, indexes, users, sequences and functions."""
    kind = source.one("unsigned", "string", "integer", "number", "nope", "any", "array", "boolean", "uuid")
    options = source.one("", "field_count = 2", "format = {{1}}", "if_not_exists = true", "engine = 5", "nope = 1")
    shape = source.one("tree", "hash", "nope")
    part = source.one("1", "'a'", "5", "{1, is_nullable = true}", "'zz'")
    function = source.one("", "setuid = true", "language = 5", "if_not_exists = true")
    granted = source.one("'read'", "'nope'", "5")
    return [
        f"s = box.schema.space.create({source.one(source.text(), repr('t'))}, {{{options}}})",
        f"s = box.schema.space.create('u', {{format = {{{{'a', '{kind}'}}, {{name = 'b', is_nullable = true}}}}}})",
        f"_ = s:create_index('pk', {{type = '{shape}', parts = {{{part}, '{kind}'}}}})",
        f"_ = s:create_index('sk', {{unique = false, parts = {{{{field = {source.small()}, type = '{kind}'}}}}}})",
        source.one("s:format()", "s:drop()", "s:rename('v')", "s.index.sk:drop()", "s:truncate()"),
        f"s:insert{{{source.plain()}, {source.plain()}}}",
        source.one(
            f"box.schema.user.create({source.text()})",
            f"box.schema.sequence.create('q', {{step = {source.small()}, min = {source.small()}}}):next()",
            f"box.schema.user.grant('guest', {granted}, 'space', {source.text()})",
            f"box.schema.func.create({source.text()}, {{{function}}})",
            f"box.schema.role.create({source.text()})",
        ),
    ]
