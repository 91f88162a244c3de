"""Programs with key definitions and mergers."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "key_def = require('key_def')",
    "merger = require('merger')",
    "buffer = require('buffer')",
    "msgpack = require('msgpack')",
    "function list(s) local r = {} for _, t in s:pairs() do table.insert(r, t) end return r end",
]


def _part(source: RandomLua) -> str:
    place = source.one(
        "fieldno = 1", "fieldno = 2", "fieldno = 3", "field = 1", "1", f"fieldno = {source.value()}", "'a'"
    )
    kind = source.one(
        "type = 'unsigned'",
        "type = 'string'",
        "type = 'scalar'",
        "type = 'nope'",
        "'unsigned'",
        f"type = {source.text()}",
        "type = 'any'",
        "type = 'number'",
        "type = 'array'",
        "type = 'unsigned'",
    )
    more = source.one(
        "",
        "",
        "",
        ", is_nullable = true",
        ", collation = 'unicode_ci'",
        ", collation = 'nope'",
        ", collation_id = 2",
        ", path = 'a.b'",
        ", path = '[*]'",
        f", path = {source.text()}",
        f", is_nullable = {source.value()}",
        ", nope = 1",
        ", collation_id = 99",
        f", collation = {source.text()}",
    )
    return f"{{{place}, {kind}{more}}}"


def _good_part(source: RandomLua) -> str:
    return source.one(
        "{fieldno = 1, type = 'unsigned'}",
        "{fieldno = 2, type = 'string'}",
        "{fieldno = 2, type = 'string', is_nullable = true}",
        "{fieldno = 1, type = 'scalar'}",
        "{fieldno = 3, type = 'unsigned', path = 'a'}",
        "{fieldno = 2, type = 'string', collation = 'unicode_ci'}",
    )


def _tuple(source: RandomLua) -> str:
    return source.one(
        "{1, 'a'}",
        "{2, 'B', {a = 1}}",
        "{1}",
        "{}",
        "{'x', 1}",
        "{1, nil, 3}",
        "box.tuple.new{1, 'A'}",
        "box.tuple.new{3, 'b', {a = 5}}",
        source.value(),
    )


def _definitions(source: RandomLua) -> list[str]:
    key = source.one("{1}", source.text(), "1", "{1, 2, 3}", "{}", source.value())
    call = source.one(
        f"extract_key({source.arguments(_tuple(source))})",
        f"compare({source.arguments(_tuple(source), _tuple(source))})",
        f"compare_with_key({source.arguments(_tuple(source), key)})",
        f"merge({source.arguments('j')})",
        "totable()",
        f"{source.word('nope extract_key compare merge')}({source.values(2)})",
    )
    return [
        f"j = key_def.new{{{_good_part(source)}}}",
        f"k = key_def.new("
        f"{source.arguments('{' + ', '.join(_part(source) for _ in range(source.random.randint(0, 2))) + '}')})",
        f"k = key_def.new{{{', '.join(_good_part(source) for _ in range(source.random.randint(1, 3)))}}}",
        f"k:{call}",
        source.one(
            f"k.{source.word('nope extract_key parts')}({source.values(2)})",
            f"key_def.{source.word('extract_key compare merge totable nope')}({source.values(3)})",
            f"k:{call}",
            "tostring(k):match('%a+'), type(k)",
            "k",
            "k:totable()",
            "k == j, k:merge(j):totable()",
        ),
    ]


def _source(source: RandomLua) -> str:
    return source.one(
        f"merger.new_source_fromtable({source.arguments('{{1, 2}, {3, 4}}')})",
        f"merger.new_source_fromtable({{{_tuple(source)}, {_tuple(source)}}})",
        f"merger.new_tuple_source({source.arguments('box.space._collation:pairs()')})",
        f"merger.new_tuple_source(ipairs({{{_tuple(source)}, {{5, 'x'}}}}))",
        f"merger.new_table_source({source.arguments('ipairs({{{1}, {2}}, {{3}}})')})",
        f"merger.new_table_source(function(p, s) if s == nil then return 1, {source.value()} end end)",
        f"merger.new_buffer_source(function(p, s) if s == nil then return 1, "
        f"{source.one('full()', source.value())} end end)",
        f"merger.new_source_frombuffer({source.arguments('full()')})",
        f"merger.new_{source.word('tuple_source source_frombuffer buffer_source nope')}({source.values(3)})",
    )


def _mergers(source: RandomLua) -> list[str]:
    options = source.one(
        "nil", "{reverse = true}", "{reverse = {v}}", "{nope = 1}", "{reverse = false}", "{v}"
    ).replace("{v}", source.value())
    limit = source.one(
        "nil", "{limit = 2}", "{limit = {v}}", "{buffer = full()}", "{buffer = {v}}", "{limit = 0}", "{v}"
    ).replace("{v}", source.value())
    return [
        "function full() local b = buffer.ibuf() msgpack.encode({{1, 'a'}, {2, 'b'}}, b) return b end",
        f"k = key_def.new{{{source.one('{fieldno = 1, type = ' + repr('unsigned') + '}', _good_part(source))}}}",
        f"s = {_source(source)}",
        f"r = {_source(source)}",
        source.one(
            f"m = merger.new({source.arguments('k', '{r, s}', options)}) return list(m)",
            f"m = merger.new(k, {{r, s}}, {options}) return m:select({limit})",
            f"s:select({source.arguments(limit)})",
            "list(s)",
            f"merger.new({source.values(3)})",
            "g, p, t = s:pairs() t, v = g(p, t) return v, g(p, t)",
            f"s:{source.word('nope select pairs')}({source.values(2)})",
            f"s.{source.word('select pairs nope')}({source.values(2)})",
            "m = merger.new(k, {s, s}) return list(m)",
            "tostring(s):match('%a+'), type(s)",
            f"m = merger.new(k, {{r, s}}, {options}) return m:pairs():map(function(t) return t[1] end):totable()",
        ),
        source.one("list(m)", "list(s)", "m:select()", "s:select()"),
    ]


def keys(source: RandomLua) -> list[str]:
    """Return a program about key definitions or about mergers."""
    return source.random.choice([_definitions, _mergers])(source)
