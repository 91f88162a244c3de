"""Generates console programs of several classes; equal seeds give equal programs.

`python -m test.interop.lua_programs --kind fun --count 500` runs programs on Lunabox and on Tarantool
(`LUNABOX_TARANTOOL`, or `tarantool` on PATH), and prints different replies and the rate of equal ones.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from test.interop.console_programs import ConsoleNode, console_node, normalised

MODULES = [
    "json = require('json')",
    "msgpack = require('msgpack')",
    "decimal = require('decimal')",
    "uuid = require('uuid')",
    "fiber = require('fiber')",
    "fun = require('fun')",
]
NUMBERS = ["0", "1", "-1", "2", "7", "1.5", "-0.25", "1e15", "2^53", "-2^31", "1e300", "5LL", "18446744073709551615ULL"]
TEXTS = ["''", "'a'", "'abc'", "'k1'", "'two words'", "'é'", "'a\\nb'", "'12'", "'0x1F'", "'~'", "'true'", "'a: b'"]
TABLES = ["{}", "{1, 2}", "{1, nil, 3}", "{a = 1}", "{{1}, {2}}", "{x = {y = 1}}", "{1, 'a', true}"]
OTHERS = ["nil", "box.NULL", "true", "false", "print"]


class Source:
    """Random parts of programs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: str) -> str:
        """Return one of the choices."""
        return self.random.choice(choices)

    def number(self) -> str:
        """Return the text of a number."""
        return self.random.choice(NUMBERS)

    def small(self) -> str:
        """Return the text of a small whole number."""
        return str(self.random.randrange(-2, 9))

    def text(self) -> str:
        """Return the literal of a string."""
        return self.random.choice(TEXTS)

    def plain(self) -> str:
        """Return a number, a string or a boolean."""
        return self.one(self.number(), self.text(), "true", "false")

    def value(self) -> str:
        """Return a number, a string, a table or another value as Lua text."""
        return self.one(self.number(), self.text(), self.random.choice(TABLES), self.random.choice(OTHERS))

    def values(self, most: int = 3) -> str:
        """Return up to `most` values, separated by commas."""
        return ", ".join(self.value() for _ in range(self.random.randrange(most + 1)))


Program = Callable[[Source], list[str]]


def _fun(source: Source) -> list[str]:
    start = source.one(
        f"fun.range({source.small()})",
        f"fun.range({source.small()}, {source.small()}, {source.small()})",
        f"fun.iter({source.random.choice(TABLES)})",
        f"fun.iter({source.text()})",
        f"fun.duplicate({source.plain()}):take(3)",
        "fun.zeros():take(2)",
        "fun.tabulate(function(x) return x * x end):take(4)",
        f"fun.zip({{1, 2, 3}}, {source.text()})",
    )
    steps = [
        "map(function(x) return x end)",
        "filter(function(x) return x ~= 2 end)",
        f"take({source.small()})",
        f"drop({source.small()})",
        f"take_while(function(x) return x ~= {source.plain()} end)",
        "drop_while(function(x) return x == 1 end)",
        "enumerate()",
        f"intersperse({source.plain()})",
        "tail()",
        "cycle():take(5)",
        f"chain({{{source.plain()}}})",
        f"zip({{{source.plain()}, 2}})",
        f"indexes({source.plain()})",
        f"grep({source.text()})",
        f"map({source.value()})",
    ]
    ends = [
        "totable()",
        "length()",
        "sum()",
        "product()",
        "min()",
        "max()",
        "head()",
        f"nth({source.small()})",
        f"index({source.plain()})",
        "is_null()",
        "tomap()",
        f"foldl(function(a, x) return tostring(a) .. tostring(x) end, {source.plain()})",
        f"all(function(x) return x ~= {source.plain()} end)",
        "any(function(x) return x == 2 end)",
        f"is_prefix_of({source.random.choice(TABLES)})",
        "unwrap()",
    ]
    middle = source.random.sample(steps, source.random.randrange(3))
    return [":".join([start, *middle, source.random.choice(ends)])]


def _numbers(source: Source) -> list[str]:
    a, b = source.number(), source.number()
    dec = f"decimal.new({source.one(a, repr('1.50'), repr('-0'), repr('1e-5'))})"
    return [
        source.one(
            f"{a} {source.one('+', '-', '*', '/', '%', '^')} {b}",
            f"{a} {source.one('<', '<=', '==', '~=')} {b}",
            f"tostring({a}), tonumber64({source.one(a, source.text())})",
            f"{dec} {source.one('+', '-', '*', '/')} {b}",
            f"decimal.{source.one('round', 'rescale')}({dec}, {source.small()})",
            f"decimal.{source.one('abs', 'sqrt', 'ln', 'exp', 'trim', 'precision', 'scale')}({dec})",
            f"{dec} {source.one('<', '<=', '==')} {b}",
            f"math.{source.one('floor', 'ceil', 'abs', 'max', 'min')}({a}, {b})",
            f"string.format('{source.one('%d', '%5.2f', '%g', '%x', '%s', '%q')}', {source.plain()})",
            f"bit.{source.one('band', 'bor', 'bxor')}({source.small()}, {source.small()})",
            f"tonumber({source.plain()}, {source.one('10', '16', '2', '36')})",
        )
    ]


def _errors(source: Source) -> list[str]:
    code = source.one("ILLEGAL_PARAMS", "NO_SUCH_SPACE", "TUPLE_FOUND", "UNSUPPORTED")
    made = source.one(
        f"box.error.new({{code = {source.small()}, reason = {source.text()}}})",
        f"box.error.new(box.error.{code}, 'x', 'y')",
        f"box.error.new({{type = {source.text()}, reason = 'r'}})",
        f"box.error.new({source.values(2)})",
    )
    return [
        f"e = {made}",
        source.one("e.code", "e.type", "e.message", "tostring(e)", "e:unpack().code", "e.reason", "e.custom_type"),
        source.one(
            "e:raise()", "box.error(e)", f"error({source.value()}, 0)", "pcall(error, e)", "box.error.last() == e"
        ),
        source.one("e.prev", f"e:set_prev({source.value()})", "e:set_prev(box.error.new({code = 1, reason = 'c'}))"),
        source.one("e.prev and e.prev.message", "box.error.clear()", "box.error.last()"),
    ]


def _tuple(source: Source) -> list[str]:
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


def _select(source: Source) -> list[str]:
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


def _ddl(source: Source) -> list[str]:
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


def _modules(source: Source) -> list[str]:
    value = source.value()
    return [
        source.one(
            f"json.encode({value})",
            f"json.decode({source.one(repr('[1, 2'), repr('{}'), repr('nul'), source.text(), value)})",
            f"msgpack.encode({value}):hex()",
            f"msgpack.decode({source.one(source.text(), value)})",
            f"require('yaml').encode({value})",
            f"require('yaml').decode({source.text()})",
            f"require('csv').load({source.text()})",
            f"require('uri').parse({source.one(repr('h:1'), repr('u:p@h/x?q#f'), value)})",
            f"require('digest').{source.one('md5_hex', 'sha1_hex', 'crc32', 'base64_encode')}({value})",
            f"require('fio').{source.one('basename', 'dirname', 'abspath', 'pathjoin')}({value})",
            f"uuid.fromstr({source.one(repr('c8f0fa1f-da29-438c-a040-393f1126ad39'), value)})",
            f"require('pickle').pack('{source.one('b', 'i', 'a', 'q', 'z')}', {value})",
            f"require('clock').{source.one('nope', 'bench')}({value})",
            f"string.{source.one('split', 'startswith', 'endswith', 'strip', 'hex', 'rjust')}({source.values(2)})",
            f"table.{source.one('concat', 'copy', 'deepcopy', 'sort')}({source.values(2)})",
            f"utf8.{source.one('len', 'upper', 'sub', 'char', 'isalpha', 'casecmp')}({source.values(2)})",
            f"require('iconv').new({source.text()}, 'UTF-8')",
            f"require('errno').strerror({source.small()})",
        )
    ]


def _fiber(source: Source) -> list[str]:
    return [
        source.one(
            f"f = fiber.new(function(...) return ... end, {source.value()}) f:set_joinable(true)",
            f"f = fiber.new(function() error({source.value()}) end) f:set_joinable(true)",
            "f = fiber.create(function() fiber.sleep(100) end)",
            f"f = fiber.create({source.value()})",
        ),
        source.one(
            "f:status()", "f:name()", f"f:name({source.value()})", "f:wakeup()", f"f:cancel({source.values(1)})"
        ),
        source.one("f:join()", "f.storage.x = 1", "f:cancel()", "pcall(f.join, f)"),
        source.one(
            f"fiber.sleep({source.one('0', source.text(), '{}')})",
            f"fiber.find({source.value()})",
            f"fiber.channel({source.small()})",
            f"c = fiber.channel(1) c:put({source.value()}) return c:get(), c:is_empty()",
            f"fiber.cond():wait({source.one('0', source.text())})",
            f"fiber.kill({source.value()})",
            "fiber.status()",
        ),
    ]


def _syntax(source: Source) -> list[str]:
    a, b = source.value(), source.value()
    return [
        source.one(
            f"local x = {a} return x {source.one('+', '..', '<', '==', '-')} {b}",
            f"return {a}.{source.one('x', 'y.z', 'x()')}",
            f"({a})({b})",
            f"x = {a} x.y = {b}",
            f"for i = {a}, {b} do end",
            f"for _, v in {source.one('pairs', 'ipairs')}({a}) do y = v end return y",
            f"if {a} then return 1 else return 2 end",
            f"return #{a}, -{b}",
            f"{source.one('if', 'for', 'return', 'end', 'local 5', 'x =', 'x ==', '1 +', 'goto a', '::a::')} {a}",
            f"assert({a}, {b})",
            f"select({a}, {b})",
            f"unpack({a})",
            f"setmetatable({a}, {b})",
            f"tostring({a}), type({b})",
            f"rawequal({a}, {b}), rawget({a}, {b})",
            f"string.rep({a}, {source.small()})",
            f"error({a})",
            f"loadstring({source.text()})",
        )
    ]


def _print(source: Source) -> list[str]:
    return [f"return {source.values(4)}", f"{{{source.values(3)}, {{{source.values(3)}}}}}", source.value()]


_OPTIONS = [
    "read_only",
    "log_level",
    "too_long_threshold",
    "net_msg_max",
    "readahead",
    "nope",
    "checkpoint_count",
    "worker_pool_threads",
    "replication_timeout",
    "memtx_memory",
]


def _info(source: Source) -> list[str]:
    asked = source.one("user", "id", "type", "exists", "peer", "su", "has_role")
    return [
        source.one(
            f"box.cfg{{{source.random.choice(_OPTIONS)} = {source.value()}}}",
            "type(box.info.uuid), box.info.id, box.info.status, box.info.ro",
            f"box.info[{source.text()}], box.stat[{source.text()}]",
            f"box.space[{source.value()}]",
            "box.slab.check()",
            f"box.session.{asked}({source.values(1)}) ~= nil",
            f"box.schema.{source.one('user', 'role', 'func')}.exists({source.value()})",
            f"box.space._vspace:get({source.value()})",
            "box.cfg{read_only = false}",
        )
    ]


KINDS: dict[str, Program] = {
    "fun": _fun,
    "numbers": _numbers,
    "errors": _errors,
    "tuple": _tuple,
    "select": _select,
    "ddl": _ddl,
    "modules": _modules,
    "fiber": _fiber,
    "syntax": _syntax,
    "print": _print,
    "info": _info,
}


def program(kind: str, seed: int) -> list[str]:
    """Return a program of a class: modules first, then its own statements."""
    if kind != "mixed":
        return MODULES + KINDS[kind](Source(seed))
    source = Source(seed)
    names = source.random.sample(sorted(KINDS), 3)
    return MODULES + [statement for name in names for statement in KINDS[name](source)]


def differences(kind: str, seeds: range, ours: ConsoleNode, theirs: ConsoleNode) -> tuple[list[str], int]:
    """Compare programs.

    Returns the first difference of each program, as text, and the number of statements that load no module.
    """
    found, count = [], 0
    for seed in seeds:
        statements = program(kind, seed)
        here, there = ours.replies(statements), theirs.replies(statements)
        count += len(statements) - len(MODULES)
        for number in range(len(statements)):
            one = here[number] if number < len(here) else "<nothing>"
            other = there[number] if number < len(there) else "<nothing>"
            if normalised(one) != normalised(other):
                shown = statements[len(MODULES) : number + 1]
                found.append(f"{kind} {seed}: {' ;; '.join(shown)}\n    {one!r}\n    {other!r}")
                break
    return found, count


def main() -> None:
    """Compare the classes that the arguments name, and print differences and rates."""
    parser = argparse.ArgumentParser(description="Compare generated console programs with a real Tarantool.")
    parser.add_argument("--kind", action="append", choices=[*KINDS, "mixed"], help="a class (default: all)")
    parser.add_argument("--count", type=int, default=100, help="programs of each class")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    tarantool = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if tarantool is None:
        sys.exit("no tarantool on PATH, nor in LUNABOX_TARANTOOL")
    with console_node(str(Path(sys.executable).with_name("lunabox"))) as ours, console_node(tarantool) as theirs:
        for kind in options.kind or [*KINDS, "mixed"]:
            seeds = range(options.seed, options.seed + options.count)
            found, statements = differences(kind, seeds, ours, theirs)
            print("\n".join(found))
            share = 100 - 100 * len(found) / statements
            print(f"{kind}: {statements} statements, {len(found)} differ, {share:.2f} % equal")


if __name__ == "__main__":
    main()
