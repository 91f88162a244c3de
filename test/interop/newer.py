"""Tarantool 2.10, 2.11 and 3.x, whose executables environment variables name, and a directory with all they know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from test.interop.test_replication_tarantool import Tarantool

EXECUTABLES = {
    "2.10": os.environ.get("LUNABOX_TARANTOOL_210", ""),
    "2.11": os.environ.get("LUNABOX_TARANTOOL_211", ""),
    "3": os.environ.get("LUNABOX_TARANTOOL_3", ""),
}


def of_versions(*versions: str) -> Any:
    """Return the mark that runs a test with each of these versions, or skips it where there is no executable."""
    cases = [
        pytest.param(
            version,
            marks=pytest.mark.skipif(
                not EXECUTABLES[version],
                reason=f"LUNABOX_TARANTOOL_{version.replace('.', '')} does not name a {version}",
            ),
        )
        for version in versions
    ]
    return pytest.mark.parametrize("version", cases)


class NewerTarantool(Tarantool):
    """A Tarantool that is read-only after a start, until it is promoted, if it owns the queue of synchronous rows."""

    is_ready = "return box.info.status == 'running' and (not box.info.ro or box.info.ro_reason == 'synchro')"

    def __init__(self, directory: Path, version: str) -> None:
        super().__init__(directory)
        self.executable = EXECUTABLES[version]


CONTENTS = """
local dt, uuid, dec, ffi = require('datetime'), require('uuid'), require('decimal'), require('ffi')
local is_3, has_expressions = box.info.version:match('^3') ~= nil, not box.info.version:match('^2%.10')
local varbinary = is_3 and require('varbinary') or nil

local function func(name, body, options)
    options = options or {}
    options.body, options.is_deterministic = body, true
    box.schema.func.create(name, options)
end
func('positive', 'function(value) return value > 0 end')
func('small', 'function(tuple) return tuple[1] < 1000000 end')
func('raw', 'function(args) return 1 end', {takes_raw_args = true, comment = 'gets an object'})
func('words', [[function(tuple)
    local found = {}
    for word in tuple[2]:gmatch('%a+') do table.insert(found, {word}) end
    return found
end]], {is_sandboxed = true, is_multikey = true})
box.schema.func.create('of_all', {setuid = true})
if has_expressions then func('expression', '"id" > 0', {language = 'SQL_EXPR'}) end

local names = {
    'unsigned', 'integer', 'number', 'double', 'decimal', 'uuid', 'datetime', 'interval', 'string', 'varbinary',
    'boolean', 'array', 'map', 'any', 'scalar',
}
local format = {}
for i, name in ipairs(names) do format[i] = {name = 'f_' .. name, type = name, is_nullable = i > 1} end
format[9].collation = 'unicode_ci'
local types = box.schema.space.create('types', {format = format})
types:create_index('pk', {sequence = true})
types:create_index('hash', {type = 'HASH', parts = {1}})
for _, i in ipairs{3, 5, 6, 7, 9, 11, 15} do types:create_index(names[i], {parts = {i}, unique = false}) end
local function row(i)
    local any = ({i, 'a', {i, {x = i}}, true, dec.new(i), dt.new{timestamp = i}, uuid.new(), -i, i + 0.5})[i % 9 + 1]
    return {
        i, -i * 3, ({i, i + 0.25, -i, dec.new(i) / 8, 2ULL^60 * i})[i % 5 + 1], ffi.cast('double', i / 4),
        dec.new(i) * dec.new('1e-7'), uuid.new(), dt.new{timestamp = i * 86400 + 0.125, tz = 'Europe/Moscow'},
        dt.interval.new{year = i % 5, month = -i, day = i, sec = i % 60, nsec = i}, 'Text' .. i % 7,
        varbinary and varbinary.new('\\1\\2' .. i) or nil, i % 2 == 0, {i, 'x', {1}}, {k = i, [i] = 'v'}, any,
        ({i, 's' .. i, true, dec.new(i), -i, 0.5 * i})[i % 6 + 1],
    }
end

local docs = box.schema.space.create('docs', {format = {
    {'id', 'unsigned'}, {'text', 'string'}, {'tags', 'array'}, {'doc', 'map'}, {'box', 'array'}, {'bits', 'unsigned'},
}})
docs:create_index('pk')
docs:create_index('word', {func = 'words', parts = {{1, 'string'}}, unique = false})
docs:create_index('tag', {parts = {{3, 'string', path = '[*]'}}, unique = false})
docs:create_index('name', {parts = {{4, 'string', path = 'name.first', is_nullable = true}}, unique = false})
docs:create_index('box', {type = 'RTREE', parts = {5}, unique = false, dimension = 2, distance = 'manhattan'})
docs:create_index('bits', {type = 'BITSET', parts = {6}, unique = false})

local parent = box.schema.space.create('parent', {format = {{'a', 'unsigned'}, {'b', 'string'}}})
parent:create_index('pk')
local child = box.schema.space.create('child', {
    format = {
        {'id', 'unsigned', constraint = 'positive'},
        {'p', 'unsigned', is_nullable = true, foreign_key = {space = 'parent', field = 'a'}},
    },
    constraint = {ok = 'small', more = has_expressions and 'expression' or nil},
    foreign_key = {whole = {space = 'parent', field = {p = 'a'}}},
})
child:create_index('pk')
child:create_index('p', {parts = {{'p', is_nullable = true}}, unique = false})
for name, options in pairs{sync = {is_sync = true}, near = {is_local = true}, gone = {temporary = true}} do
    box.schema.space.create(name, options):create_index('pk')
end
box.space.gone:insert{1}

box.schema.sequence.create('free', {start = 5, step = -2, min = -100, max = 100, cycle = true})
box.sequence.free:next()
box.schema.sequence.create('fresh')
box.schema.user.create('ann', {password = 'secret'})
box.schema.user.create('bob')
box.schema.role.create('worker')
box.schema.user.grant('ann', 'read,write', 'space', 'types')
box.schema.user.grant('ann', 'execute', 'function', 'positive')
box.schema.user.grant('bob', 'worker')
box.schema.user.grant('bob', 'create', 'space')
box.schema.role.grant('worker', 'read', 'sequence', 'free')
for _, text in ipairs{
    "CREATE TABLE t (id INT PRIMARY KEY, a INT CHECK (a > 10), b STRING, CONSTRAINT c CHECK (b LIKE 'x%'))",
    "CREATE TABLE u (id INT PRIMARY KEY AUTOINCREMENT, t INT REFERENCES t (id))",
    "CREATE INDEX ut ON u (t)",
    "CREATE VIEW w AS SELECT a FROM t WHERE id > 0",
    "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN INSERT INTO u (t) VALUES (new.id); END",
    "INSERT INTO t VALUES (1, 11, 'x')",
} do
    assert(box.execute(text))
end

if is_3 then
    func('gives', 'function() return 17 end')
    func('on_change', 'function() end', {trigger = 'box.space.docs.on_replace'})
    box.schema.space.create('defaults', {format = {
        {'id', 'unsigned'}, {'a', 'unsigned', default = 5}, {'b', 'string', default = 'x'},
        {'c', 'unsigned', default_func = 'gives'}, {'m', 'map', default = {k = 1}},
    }}):create_index('pk')
    box.space.defaults:insert{1}
    box.schema.space.create('passing', {type = 'temporary'}):create_index('pk')
    box.space.passing:insert{1}
    for _, object in ipairs{'lua_eval', 'lua_call', 'sql'} do box.schema.user.grant('ann', 'execute', object) end
    box.schema.user.grant('ann', 'execute', 'lua_call', 'type')
end

box.ctl.promote()
box.begin() for i = 1, 200 do types:insert(row(i)) end box.commit()
for i = 201, 205 do types:insert{i, box.NULL, i} end
types:insert{nil, 1}
for i = 1, 50 do
    local doc, corners = {name = {first = 'n' .. i % 9}}, {i, i, i + 2, i + 3}
    docs:insert{i, 'word' .. i .. ' more', {'a' .. i % 5, 'b'}, doc, corners, i}
    parent:insert{i, 'p' .. i}
    child:insert{i, i}
    box.space.near:insert{i}
end
child:insert{60}
for i = 1, 10 do box.space.sync:insert{i, 'first'} end
box.snapshot()

box.begin()
for i = 300, 350 do types:replace(row(i)) end
types:delete{5}
types:update({7}, {{'=', 9, 'changed'}, {'+', 2, 5}})
types:upsert({8}, {{'-', 2, 1}})
box.commit()
for i = 11, 30 do box.space.sync:replace{i, 'second'} end
types:before_replace(function(old, new) return new[1] ~= 9999 and new or old end)
types:replace{9999}
parent:create_index('b', {parts = {'b'}, unique = false})
local more = docs:format()
more[7] = {name = 'more', type = 'any', is_nullable = true}
docs:format(more)
box.space.near:truncate()
box.space.near:insert{100}
docs:delete{3}
box.sequence.free:next()
box.ctl.demote()
box.ctl.promote()
box.space.sync:insert{100}
box.schema.user.revoke('bob', 'create', 'space')
assert(box.execute("INSERT INTO t VALUES (3, 13, 'xx')"))
if is_3 then
    box.cfg{instance_name = 'first', replicaset_name = 'all'}
    box.space.defaults:insert{2, nil, 'y'}
    local consumers = box.space._gc_consumers -- since 3.3
    if consumers then
        consumers:insert{uuid.str(), setmetatable({[1] = 5}, {__serialize = 'map'}), {type = 'replica'}}
    end
    assert(box.execute("CREATE TABLE Mixed (Id INT PRIMARY KEY, nAme STRING, CHECK (nAme > 'a'))"))
    assert(box.execute("INSERT INTO Mixed VALUES (1, 'b')"))
end
"""
"""Lua that fills a directory: a snapshot and a log, with everything that the version has and that is known here."""
DUMP = """
local spaces, indexes = {}, {}
for _, space in box.space._space:pairs() do
    local name = space.name
    if space.engine == 'memtx' and name ~= 'passing' and name ~= 'gone' then
        spaces[name] = {}
        for _, tuple in box.space[name]:pairs() do table.insert(spaces[name], tuple) end
        for number, index in pairs(box.space[name].index) do
            if type(number) == 'number' and number > 0 then indexes[name .. '.' .. index.name] = index:select() end
        end
    end
end
return spaces, indexes
"""
"""Lua that returns the tuples of all spaces by name, and those of their secondary indexes in the index's order."""
UNORDERED = {"_sequence_data", "types.hash", "docs.box", "docs.bits"}


def in_order(tuples: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Sort what comes from indexes without an order."""
    return {name: sorted(rows, key=repr) if name in UNORDERED else rows for name, rows in tuples.items()}
