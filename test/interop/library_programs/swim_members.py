"""Programs with instances of SWIM: options, members, payloads, wrong arguments, what is left after the end."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "swim = require('swim')",
    "uuid = require('uuid')",
    "fiber = require('fiber')",
    "ffi = require('ffi')",
    "function u(i) return ('00000000-0000-1000-8000-00000000000' .. i) end",
]

METHODS = (
    "add_member broadcast cfg delete is_configured member_by_uuid on_member_event pairs probe_member "
    "quit remove_member self "
    "set_codec set_payload set_payload_raw size nope"
).split()
MEMBER = "status uuid uri incarnation payload payload_cdata payload_str is_dropped nope".split()
OPTIONS = "uri uuid heartbeat_rate ack_timeout gc_mode generation nope codec".split()


def _uuid(source: RandomLua) -> str:
    return source.one("u(1)", "u(2)", "u(3)", "uuid.fromstr(u(2))", "'x'", "uuid.NULL", "u(9)")


def _uri(source: RandomLua) -> str:
    return source.one(
        "'127.0.0.1:0'",
        "0",
        "'127.0.0.1'",
        "'localhost:0'",
        "'nope'",
        "'1.2.3.4:5'",
        "3301",
        "'0'",
        "'127.0.0.1:99999'",
        "-1",
        "65536",
        "'unix/:x'",
        "'::1:5'",
        "''",
    )


def _option(source: RandomLua) -> str:
    return source.one(
        f"uri = {_uri(source)}",
        f"uuid = {_uuid(source)}",
        f"heartbeat_rate = {source.one('0.5', '100', '0', '-1', source.value())}",
        f"ack_timeout = {source.one('0.5', '100', '0', '-1', source.value())}",
        f"gc_mode = {source.one(repr('on'), repr('off'), repr('x'), source.value())}",
        f"generation = {source.one('0', '5', '-1', '1.5', source.value())}",
        f"{source.random.choice(OPTIONS)} = {source.value()}",
    )


def _new(source: RandomLua) -> str:
    return source.one(
        f"swim.new({{generation = 0, {_option(source)}}})",
        f"swim.new({{{_option(source)}, {_option(source)}}})",
        "swim.new({generation = 0, uri = '127.0.0.1:0', uuid = u(1)})",
        "swim.new({generation = 0, uri = '127.0.0.1:0', uuid = u(1), heartbeat_rate = 100})",
        "swim.new({generation = 0})",
        "swim.new()",
        f"swim.new({source.values(2)})",
    )


def _call(source: RandomLua) -> str:
    codec = source.one(
        "{algo = 'aes128', mode = 'cbc', key = ('k'):rep(16)}",
        "{algo = 'none'}",
        "{algo = 'nope'}",
        "{algo = 'aes256', key = 'x'}",
        "{mode = 'cbc'}",
        "{algo = 'des', mode = 'ofb', key = ('k'):rep(8), key_size = 8}",
        f"{{algo = 'aes128', key = {source.value()}}}",
        f"{{algo = 'aes128', key = ffi.cast('const char *', 'x'), key_size = {source.value()}}}",
    )
    member = source.one(
        "{uri = '127.0.0.1:1', uuid = u(2)}",
        f"{{uri = {_uri(source)}, uuid = {_uuid(source)}}}",
        "{uuid = u(2)}",
        "{uri = 5}",
        f"{{uri = '127.0.0.1:1', uuid = u(3), {_option(source)}}}",
    )
    call = source.one(
        f"cfg{{{_option(source)}}}",
        f"cfg({source.arguments('{' + _option(source) + '}')})",
        f"add_member({source.arguments(member)})",
        f"add_member({source.arguments(member)})",
        f"remove_member({source.arguments(_uuid(source))})",
        f"member_by_uuid({source.arguments(_uuid(source))})",
        f"probe_member({source.arguments(_uri(source))})",
        f"broadcast({source.arguments(source.one('1', '3301', 'nil', repr('3301'), '-1'))})",
        "size()",
        "is_configured()",
        f"set_codec({source.arguments(codec)})",
        f"set_payload({source.arguments(source.value())})",
        f"set_payload("
        f"{source.one('{a = 1}', repr('text'), '5', 'nil', '(' + chr(39) + 'x' + chr(39) + '):rep(1300)', 'print')})",
        f"set_payload_raw("
        f"{source.arguments(source.one(repr('abc'), 'ffi.cast(' + repr('char *') + ', ' + repr('abc') + '), 3'))})",
        f"on_member_event({source.arguments(source.one('function() end', 'nil', 'print'))})",
        "self()",
        "quit()",
        "delete()",
        f"{source.random.choice(METHODS)}({source.values(2)})",
    )
    return f"s{source.one(':', ':', ':', ':', ':', ':', '.')}{call}"


def _member(source: RandomLua) -> str:
    got = source.one("s:self()", "s:member_by_uuid(u(2))", "s:self()")
    method = source.random.choice(MEMBER)
    return source.one(
        f"m = {got} return m:{method}({source.one('', '', source.values(1))})",
        f"m = {got} return m.{method}({source.values(1)})",
        f"m = {got} return tostring(m:incarnation()), m:incarnation() "
        f"{source.one('==', '<', '<=', '+', '..')} {source.one('m:incarnation()', source.value())}",
        f"m = {got} return m:incarnation().{source.word('version generation nope')}",
        f"m = {got} return m",
        f"m = {got} return m == s:self(), tostring(m) ~= nil",
        f"m = {got} m.x = {source.value()} return m.x",
        f"{_new(source).replace('swim.new', 'swim.' + source.one('nope', 'new'))} ~= nil",
        "x = {} for k, v in s:pairs() do x[#x + 1] = tostring(k) .. v:status() end table.sort(x) return x",
        "x = 0 for k, v in s:pairs() do s:size() x = x + 1 end return x",
        "g, p, t = s:pairs() return type(g), type(p), t",
        "s.cfg.uri ~= nil, s.cfg.heartbeat_rate, s.cfg.gc_mode, s.cfg.ack_timeout",
        f"s.cfg.{source.random.choice(OPTIONS)}" if source.chance(0.5) else "s.cfg.x = 1",
        f"s.{source.word('nope x ptr prev')} == nil",
        "f, e = s:on_member_event() return f, e",
    )


def swim_members(source: RandomLua) -> list[str]:
    """Return the life of an instance."""
    own = source.one(_new(source), "swim.new({generation = 0, uri = '127.0.0.1:0', uuid = u(1)})")
    return [
        f"s, e = {own} return type(s), tostring(e)",
        *[source.random.choice([_call, _call, _member])(source) for _ in range(source.random.randint(2, 5))],
        "if s then return pcall(s.delete, s) end",
        _call(source),
    ]
