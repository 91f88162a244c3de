"""Generates Lua programs about all kinds of indexes: definitions, valid and invalid writes, reads by all iterators.

A program is a Lua function that makes a space, works with it and drops it. A script contains hundreds of them. Each
prints the result of each statement: values as JSON, errors as code and text.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

PRELUDE = """
local json = require('json')
box.cfg{log = 'log.txt', wal_mode = 'none', memtx_use_mvcc_engine = false}
local function show(name, ok, ...)
    local problem = ...
    if ok then
        print(name, json.encode({...}))
    elseif type(problem) == 'cdata' then
        print(name, 'error', problem.code, tostring(problem))
    else
        print(name, 'error', (tostring(problem):gsub('^.-%.lua:%d+: ', '')))
    end
end
local function try(name, f, ...)
    show(name, pcall(f, ...))
end
local s
local function create(name, options)
    local ok, problem = pcall(s.create_index, s, name, options)
    show('create ' .. name, ok, ok and 'done' or problem)
end
local function alter(name, options)
    if s.index[name] ~= nil then
        local ok, problem = pcall(s.index[name].alter, s.index[name], options)
        show('alter ' .. name, ok, ok and 'done' or problem)
    end
end
-- A method of an index, if it is there.
local function on(name, method, ...)
    local index = s.index[name]
    if index ~= nil then
        try(name .. ':' .. method, index[method], index, ...)
    end
end
-- A read without an order of its own: the tuples sorted, or with `is_partial` how many there are.
local function sorted(name, method, is_partial, key, options)
    local index = s.index[name]
    if index ~= nil then
        try(name .. ':' .. method, function()
            local shown = {}
            if method == 'pairs' then
                for _, tuple in index:pairs(key, options) do
                    shown[#shown + 1] = json.encode(tuple)
                end
            else
                for i, tuple in ipairs(index:select(key, options)) do
                    shown[i] = json.encode(tuple)
                end
            end
            table.sort(shown)
            return is_partial and #shown or shown
        end)
    end
end
-- The distances of tuples from a point, added in the order in which Tarantool adds the dimensions.
local function near(name, path, metric, point, options)
    local index = s.index[name]
    if index ~= nil then
        try(name .. ':near', function()
            local found = {}
            local low = type(point[1]) == 'table' and point[1] or point
            for i, tuple in ipairs(index:select(point, options)) do
                local value = tuple[index.parts[1].fieldno]
                if index.parts[1].path ~= nil then
                    value = value[path]
                end
                local d, sum = index.dimension, 0
                for n = d, 1, -1 do
                    local a, b = tonumber(value[n]), tonumber(value[#value - d + n])
                    local p = tonumber(low[n])
                    if #low > d then
                        p = math.min(p, tonumber(low[n + d]))
                    end
                    a, b = math.min(a, b), math.max(a, b)
                    local way = p < a and a - p or p > b and p - b or 0
                    sum = sum + (metric == 'euclid' and way * way or way)
                end
                found[i] = sum
            end
            return found
        end)
    end
end
local function walk(name, key, options, limit, between)
    local index = s.index[name]
    if index == nil then
        return
    end
    try(name .. ':pairs', function()
        local found = {}
        for _, tuple in index:pairs(key, options) do
            found[#found + 1] = tuple
            if #found == limit then
                break
            end
            if between ~= nil then
                between(#found)
            end
        end
        return found
    end)
end
local function atomic(is_kept, f)
    box.begin()
    f()
    if is_kept then
        try('commit', box.commit)
    else
        try('rollback', box.rollback)
    end
end
"""
EPILOGUE = "os.exit(0)\n"


class Kind(ABC):
    """Generates programs about one kind of index from a random source."""

    name: ClassVar[str]
    iterators: ClassVar[tuple[str, ...]]

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.indexes = ["i", "j"]

    def pick(self, *values: str) -> str:
        return self.random.choice(values)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    @abstractmethod
    def definition(self) -> str:
        """Return the options of an index as Lua text, mostly valid."""

    @abstractmethod
    def tuple(self) -> str:
        """Return a tuple for the space as Lua text, mostly valid."""

    @abstractmethod
    def key(self) -> str:
        """Return a key of the index as Lua text, mostly valid."""

    def prepare(self) -> list[str]:
        """Return the statements before the space is created."""
        return []

    def finish(self) -> list[str]:
        """Return the statements after the space was dropped."""
        return []

    def format(self) -> str:
        return ""

    def primary(self) -> str:
        # No hash index: its order, in which other indexes are built from it, differs from Tarantool's.
        return self.pick("{}", "{parts = {{1, 'scalar'}}}", "{parts = {{1, 'integer'}}}", "{}")

    def operations(self) -> str:
        field = self.pick("2", "2", "3", "4")
        return f"{{{{'{self.pick('=', '=', '!', '#')}', {field}, {self.field()}}}}}"

    def field(self) -> str:
        """Return the new value of a field as Lua text, for an update."""
        return self.pick("1", "'a'", "{}", "{1, 2}", "box.NULL")

    def primary_key(self) -> str:
        return str(self.random.randrange(1, 12))

    def program(self, number: int) -> list[str]:
        lines = self.prepare()
        lines.append(f"s = box.schema.space.create('s{number}', {{{self.format()}}})")
        lines.append(f"create('pk', {self.primary()})")
        writes_first = self.random.randrange(6) if self.chance(0.4) else 0
        lines += [self.write() for _ in range(writes_first)]
        lines += [f"create('{name}', {self.definition()})" for name in self.indexes]
        for _ in range(self.random.randrange(8, 24)):
            lines.append(self.statement())
        lines += [f"on('{name}', 'select')" for name in self.indexes]
        lines += [f"on('{name}', 'len')" for name in self.indexes]
        lines.append("s:drop()")
        return lines + self.finish()

    def statement(self) -> str:
        choice = self.random.randrange(20)
        if choice < 9:
            return self.write()
        if choice == 9:
            body = " ".join(self.write() for _ in range(self.random.randrange(1, 4)))
            return f"atomic({self.pick('true', 'false')}, function() {body} end)"
        if choice == 10:
            return self.rare()
        return self.read()

    def write(self) -> str:
        match self.random.randrange(8):
            case 0 | 1:
                return f"try('insert', s.insert, s, {self.tuple()})"
            case 2 | 3 | 4:
                return f"try('replace', s.replace, s, {self.tuple()})"
            case 5:
                return f"try('update', s.update, s, {self.primary_key()}, {self.operations()})"
            case 6:
                return f"try('upsert', s.upsert, s, {self.tuple()}, {self.operations()})"
        return f"try('delete', s.delete, s, {self.primary_key()})"

    def rare(self) -> str:
        name = self.pick(*self.indexes)
        return self.pick(
            "try('truncate', s.truncate, s)",
            f"alter('{name}', {self.definition()})",
            f"on('{name}', 'drop')",
            f"create('{name}', {self.definition()})",
            f"on('{name}', 'update', {self.key()}, {self.operations()})",
            f"on('{name}', 'delete', {self.key()})",
        )

    def read(self) -> str:
        name, iterator = self.pick(*self.indexes), self.pick(*self.iterators)
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                options = f"{{iterator = '{iterator}'{self.limits()}}}"
                return f"on('{name}', 'select', {self.key()}, {options})"
            case 5:
                return f"on('{name}', 'count', {self.key()}, {{iterator = '{iterator}'}})"
            case 6:
                return f"on('{name}', '{self.pick('min', 'max')}', {self.pick('nil', self.key())})"
            case 7:
                return f"on('{name}', 'get', {self.key()})"
            case 8:
                return f"walk('{name}', {self.key()}, {{iterator = '{iterator}'}}, {self.random.randrange(1, 9)})"
        return f"on('{name}', 'len')"

    def limits(self) -> str:
        return self.pick("", "", "", f", limit = {self.random.randrange(5)}", f", offset = {self.random.randrange(4)}")


TREE_ITERATORS = ("EQ", "REQ", "ALL", "LT", "LE", "GE", "GT")


class Multikey(Kind):
    """Programs about multikey indexes, which have a key for every element of an array."""

    name = "multikey"
    iterators = (*TREE_ITERATORS, "NEIGHBOR", "BITS_ALL_SET")

    def __init__(self, source: random.Random) -> None:
        super().__init__(source)
        self.root = self.pick("[*]", "[*]", "a[*]", "a.b[*]", "[2][*]")
        self.suffix = self.pick("", "", ".k", ".k.l", "[1]")
        self.type = self.pick("unsigned", "string", "scalar", "integer", "number")
        self.nullable = self.chance(0.5)

    def definition(self) -> str:
        parts = [self.part(self.suffix)]
        if self.chance(0.3):
            parts.append(self.pick("{1, 'unsigned'}", self.part(".m"), "{3, 'scalar', is_nullable = true}"))
            if "{1, 'unsigned'}" in parts and "is_nullable" in parts[0]:
                # Tarantool does not check for duplicates when an index becomes unique without the primary key's parts.
                parts.pop()
        if self.chance(0.1):
            parts.append(
                self.pick("{3, 'unsigned', path = '[*]'}", "{2, 'unsigned', path = '[*].a[*]'}", "{2, 'unsigned'}")
            )
        self.random.shuffle(parts)
        options = self.pick("", ", unique = false", ", unique = false", ", type = 'hash'" if self.chance(0.1) else "")
        return f"{{parts = {{{', '.join(parts)}}}{options}}}"

    def part(self, suffix: str) -> str:
        nullable = ", is_nullable = true" if self.nullable or self.chance(0.05) else ""
        if nullable and self.chance(0.2):
            nullable += ", exclude_null = true"
        collation = ", collation = 'unicode_ci'" if self.type in ("string", "scalar") and self.chance(0.3) else ""
        return f"{{2, '{self.type}', path = '{self.root}{suffix}'{nullable}{collation}}}"

    def scalar(self) -> str:
        if self.chance(0.06):
            return self.pick("{}", "{1}", "-1", "true", "'z'")
        match self.type:
            case "unsigned":
                return str(self.random.randrange(6))
            case "string":
                return self.pick("'a'", "'A'", "'b'", "'C'", "'c'", "''", "'ab'")
            case "scalar":
                return self.pick("1", "2", "'a'", "'A'", "true", "-3", "2.5")
            case "integer":
                return str(self.random.randrange(-4, 5))
        return self.pick("1", "1.5", "-2", "3", "0.25")

    def element(self) -> str:
        # No nil element above a required field: that crashes Tarantool.
        if self.nullable and self.chance(0.15):
            return self.pick("box.NULL", "{}") if self.suffix != "" else "box.NULL"
        value = self.scalar()
        extra = f", m = {self.scalar()}" if self.chance(0.5) else ""
        match self.suffix:
            case "":
                return value
            case ".k":
                return f"{{k = {value}{extra}}}"
            case ".k.l":
                return f"{{k = {{l = {value}}}{extra}}}"
        return f"{{{value}, 7}}"

    def field(self) -> str:
        elements = ", ".join(self.element() for _ in range(self.random.choice((0, 1, 2, 2, 3, 4))))
        match self.root:
            case "[*]":
                value = f"{{{elements}}}"
            case "a[*]":
                value = f"{{a = {{{elements}}}}}"
            case "a.b[*]":
                value = f"{{a = {{b = {{{elements}}}}}}}"
            case _:
                value = f"{{1, {{{elements}}}}}"
        return self.pick("box.NULL", "{}", "1", value) if self.chance(0.08) else value

    def tuple(self) -> str:
        more = self.pick("", ", 1", ", 'x'", ", box.NULL")
        return f"{{{self.primary_key()}, {self.field()}{more}}}"

    def key(self) -> str:
        return self.pick(
            "nil", "{}", f"{{{self.scalar()}}}", f"{{{self.scalar()}}}", self.scalar(), f"{{{self.scalar()}, 2}}",
            f"{{{self.scalar()}, {self.scalar()}}}", "{box.NULL}",
        )  # fmt: skip


class Functional(Kind):
    """Programs about functional indexes, whose keys a function computes."""

    name = "functional"
    iterators = (*TREE_ITERATORS, "OVERLAPS")
    BODIES = (
        ("function(t) return {t[2]} end", False),
        ("function(t) return {t[2], t[1] % 3} end", False),
        ("function(t) return {type(t[2]):lower()} end", False),
        ("function(t) return {t.name} end", False),
        ("function(t) if t[1] == 7 then error('no seven') end return {t[1] % 4} end", False),
        ("function(t) return t[2] end", False),
        ("function(t) return {t[3]} end", False),
        ("function(t) return {#type(t[2]), t[2]} end", False),
        ("function(t) return {{t[1]}, {t[1] + 1}, {t[1]}} end", True),
        ("function(t) local r, text = {}, type(t[2]) == 'string' and t[2] or 'xyz' "
         "for c in text:gmatch('.') do r[#r + 1] = {c} end return r end", True),
        ("function(t) if t[1] % 3 == 0 then return {} end return {{t[2], 1}, {t[2], 2}} end", True),
        ("function(t) if type(t[2]) ~= 'table' then return {{t[2]}} end local r = {} for i, v in ipairs(t[2]) do "
         "r[i] = {v} end return r end", True),
        ("function(t) return t[2] end", True),
    )  # fmt: skip

    def prepare(self) -> list[str]:
        lines = ["local functions = {}"]
        for name in ("f", "g", "h"):
            body, is_multikey = self.random.choice(self.BODIES)
            is_multikey = is_multikey is not self.chance(0.05)
            is_fixed = "false" if self.chance(0.04) else "true"
            options = f"is_deterministic = {is_fixed}, is_sandboxed = true"
            more = f"opts = {{is_multikey = {str(is_multikey).lower()}}}"
            lines.append(f'box.schema.func.create("{name}", {{body = "{body}", {options}, {more}}})')
        return lines

    def finish(self) -> list[str]:
        return [f"try('drop', box.schema.func.drop, '{name}')" for name in ("f", "g", "h")]

    def format(self) -> str:
        return "format = {{'id', 'unsigned'}, {'name'}}" if self.chance(0.5) else ""

    def definition(self) -> str:
        first = self.pick("unsigned", "string", "scalar", "scalar", "integer")
        nullable = self.pick("", "", ", is_nullable = true", ", is_nullable = true, exclude_null = true")
        collation = ", collation = 'unicode_ci'" if first in ("string", "scalar") and self.chance(0.2) else ""
        parts = [f"{{1, '{first}'{nullable}{collation}}}"]
        if self.chance(0.3):
            parts.append(self.pick("{2, 'scalar'}", "{2, 'unsigned', is_nullable = true}"))
        if self.chance(0.05):
            parts[0] = self.pick("{2, 'unsigned'}", "{1, 'string', path = 'a'}", "{1, 'array'}")
        options = self.pick("", ", unique = false", ", unique = false", ", type = 'hash'" if self.chance(0.1) else "")
        function = self.pick("f", "g", "h", "f", "g", "none" if self.chance(0.1) else "h")
        return f"{{func = '{function}', parts = {{{', '.join(parts)}}}{options}}}"

    def field(self) -> str:
        return self.pick(
            "1", "2", "3", "'a'", "'b'", "'B'", "'ab'", "'aab'", "'c'", "{1, 2}", "{'a', 'b', 'a'}", "{}", "box.NULL",
            "true", "{{1}}", "-1",
        )  # fmt: skip

    def tuple(self) -> str:
        more = self.pick("", "", ", 1", ", 'x'", ", box.NULL")
        return f"{{{self.primary_key()}, {self.field()}{more}}}"

    def key(self) -> str:
        value = self.pick("1", "2", "3", "'a'", "'b'", "'ab'", "true", "0")
        return self.pick(
            "nil", "{}", value, value, f"{{{value}, {self.field()}}}", f"{{{value}, 1}}", "{box.NULL}", "{1, 2, 3}"
        )

    def rare(self) -> str:
        name = self.pick(*self.indexes)
        row = f"{{s.id, {self.indexes.index(name) + 1}"
        tie = f"box.space._func_index:insert{row}, box.func.{self.pick('f', 'g', 'h')}.id}}"
        return self.pick(
            super().rare(),
            super().rare(),
            f"try('untie', box.space._func_index.delete, box.space._func_index, {row}}})",
            f"try('tie', function() return {tie}[2] end)",
            f"try('drop function', box.schema.func.drop, '{self.pick('f', 'g')}')",
        )


class Bitset(Kind):
    """Programs about BITSET indexes over numbers and strings."""

    name = "bitset"
    iterators = (
        "BITS_ALL_SET", "BITS_ANY_SET", "BITS_ALL_NOT_SET", "EQ", "ALL", "BITS_ALL_SET", "BITS_ANY_SET",
        "BITS_ALL_NOT_SET", "EQ", "REQ", "GE", "LT", "OVERLAPS",
    )  # fmt: skip

    def __init__(self, source: random.Random) -> None:
        super().__init__(source)
        self.type = self.pick("unsigned", "unsigned", "string")
        self.path = self.pick("", "", "", ", path = 'a'")

    def definition(self) -> str:
        if self.chance(0.1):
            return self.pick(
                "{type = 'bitset'}", "{type = 'bitset', unique = true}", "{type = 'bitset', parts = {{2, 'integer'}}}",
                "{type = 'bitset', parts = {{2, 'unsigned'}, {3, 'unsigned'}}}", "{type = 'bitset', hint = true}",
                "{type = 'bitset', parts = {{2, 'unsigned', is_nullable = true}}}",
                "{type = 'bitset', parts = {{2, 'unsigned', path = '[*]'}}}",
                "{type = 'bitset', parts = {{2, 'array'}}}",
            )  # fmt: skip
        return f"{{type = 'bitset', unique = false, parts = {{{{2, '{self.type}'{self.path}}}}}}}"

    def scalar(self) -> str:
        if self.chance(0.05):
            return self.pick("-1", "1.5", "true", "{}", "box.NULL", "'x'", "7")
        if self.type == "unsigned":
            return self.pick(
                "0", "1", "2", "3", "4", "5", "6", "7", "8", "255", "256", "1023", "2^53", "18446744073709551615ULL",
                str(self.random.randrange(64)), str(self.random.randrange(1 << 20)),
            )  # fmt: skip
        return self.pick("''", "'a'", "'b'", "'ab'", "'a\\0'", "'abc'", "'\\1'", "'\\3\\1'", "'zz'", "'\\0'")

    def field(self) -> str:
        value = self.scalar()
        if self.chance(0.04):
            return self.pick("box.NULL", "{}", "1")
        return f"{{a = {value}}}" if self.path else value

    def tuple(self) -> str:
        return f"{{{self.primary_key()}, {self.field()}{self.pick('', '', ', 1')}}}"

    def key(self) -> str:
        value = self.scalar()
        return self.pick(value, f"{{{value}}}", f"{{{value}}}", "nil", f"{{{value}, 1}}")

    def read(self) -> str:
        # A read first: `bsize` of a bitset index that was never read crashes Tarantool.
        looks = " ".join(f"on('{name}', 'select')" for name in self.indexes)
        statement = super().read()
        return f"{looks} {statement}" if "'count'" in statement or "'len'" in statement else statement


class Rtree(Kind):
    """Programs about RTREE indexes over points and rectangles; results are sorted because Tarantool's order differs."""

    name = "rtree"
    iterators = ("ALL", "EQ", "GE", "GT", "LE", "LT", "OVERLAPS", "OVERLAPS", "NEIGHBOR", "NEIGHBOR")

    def __init__(self, source: random.Random) -> None:
        super().__init__(source)
        self.dimension = self.random.choice((2, 2, 2, 2, 1, 3, 3, 4, 8, 20))
        self.distance = self.pick("euclid", "manhattan")
        self.path = self.pick("", "", "", "", ", path = 'a'")
        self.span = self.random.choice((3, 6, 12, 1000))

    def definition(self) -> str:
        if self.chance(0.12):
            return self.pick(
                "{type = 'rtree', unique = true}", "{type = 'rtree', parts = {{2, 'unsigned'}}}",
                "{type = 'rtree', parts = {{2, 'array'}, {3, 'array'}}}", "{type = 'rtree', hint = true}",
                "{type = 'rtree', parts = {{2, 'array', is_nullable = true}}}", "{type = 'rtree', dimension = 21}",
                "{type = 'rtree', parts = {{2, 'array', path = '[*]'}}}", "{type = 'rtree', dimension = 0}",
                "{type = 'rtree', dimension = -1}", "{type = 'rtree', distance = 'chebyshev'}",
                "{type = 'rtree', dimension = 'two'}", "{type = 'rtree', distance = 2}",
                "{type = 'rtree', dimension = 2.5}", "{type = 'rtree'}", "{type = 'rtree', parts = {{3, 'array'}}}",
            )  # fmt: skip
        dimension = f", dimension = {self.dimension}" if self.dimension != 2 or self.chance(0.2) else ""
        distance = f", distance = '{self.distance}'" if self.distance != "euclid" or self.chance(0.2) else ""
        return f"{{type = 'rtree', parts = {{{{2, 'array'{self.path}}}}}{dimension}{distance}}}"

    def number(self) -> str:
        if self.chance(0.01):
            return self.pick("'x'", "box.NULL", "true", "{}", "2^63", "18446744073709551615ULL", "9007199254740993LL")
        value = self.random.randrange(-self.span // 3, self.span)
        return self.pick(str(value), str(value), str(value), f"{value}.5", f"{value}.25", f"{value}LL")

    def coordinates(self) -> str:
        if self.chance(0.03):
            return ", ".join(self.number() for _ in range(self.random.randrange(2 * self.dimension + 2)))
        return ", ".join(self.number() for _ in range(self.dimension * self.random.choice((1, 1, 2))))

    def field(self) -> str:
        value = f"{{{self.coordinates()}}}"
        if self.chance(0.02):
            return self.pick("box.NULL", "{}", "1", "{x = 1}", "'a'")
        return f"{{a = {value}}}" if self.path else value

    def tuple(self) -> str:
        return f"{{{self.random.randrange(1, 40)}, {self.field()}{self.pick('', '', ', 1', ', {1, 2}')}}}"

    def key(self) -> str:
        value = f"{{{self.coordinates()}}}"
        return self.pick(value, value, f"{{{value}}}", "nil" if self.chance(0.2) else value)

    def program(self, number: int) -> list[str]:
        lines = super().program(number)
        more = [self.write() for _ in range(self.random.choice((0, 0, 20, 60)))]
        at = len(lines) // 2
        return [self.in_order(line) for line in [*lines[:at], *more, *lines[at:]]]

    @staticmethod
    def in_order(line: str) -> str:
        """Return the statement, changed so that it prints its results sorted."""
        for name in ("i", "j"):
            line = line.replace(f"on('{name}', 'select')", f"sorted('{name}', 'select', false)")
        # Collect iterators first: one that outlives its index crashes Tarantool.
        return f"collectgarbage() {line}" if any(word in line for word in ("alter", "drop", "truncate")) else line

    def read(self) -> str:
        name, iterator = self.pick(*self.indexes), self.pick(*self.iterators)
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3 | 4 | 5:
                limits = self.limits()
                if iterator == "NEIGHBOR" and self.chance(0.9):
                    path = "'a'" if self.path else "nil"
                    key = f"{{{', '.join(self.number() for _ in range(self.dimension))}}}"
                    return f"near('{name}', {path}, '{self.distance}', {key}, {{iterator = 'NEIGHBOR'{limits}}})"
                is_partial = "true" if limits else "false"
                return f"sorted('{name}', 'select', {is_partial}, {self.key()}, {{iterator = '{iterator}'{limits}}})"
            case 6:
                return f"on('{name}', 'count', {self.key()}, {{iterator = '{iterator}'}})"
            case 7:
                return f"on('{name}', '{self.pick('min', 'max', 'random')}', {self.pick('nil', self.key())})"
            case 8:
                return f"on('{name}', 'get', {self.key()})"
            case 9:
                return f"sorted('{name}', 'pairs', false, {self.key()}, {{iterator = '{iterator}'}})"
            case 10:
                other = self.pick("REQ", "BITS_ALL_SET", "BITS_ANY_SET")
                return f"sorted('{name}', 'select', false, {self.key()}, {{iterator = '{other}'}})"
        return f"on('{name}', 'len')"


KINDS: dict[str, Callable[[random.Random], Kind]] = {kind.name: kind for kind in (Multikey, Functional, Bitset, Rtree)}


def script(kind: str, seed: int, count: int) -> str:
    """Return a Lua script of `count` programs about a kind of index; equal seeds give equal scripts."""
    lines = [PRELUDE]
    for number in range(count):
        program = KINDS[kind](random.Random(f"{kind} {seed} {number}")).program(number)
        lines += [f"print('program {number}')", "do", *program, "end"]
    lines.append(EPILOGUE)
    return "\n".join(lines)
