"""Programs with the libraries of LuaJIT, `strict` and `log`, and what `help` says."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "ffi = require('ffi')",
    "log = require('log')",
    "strict = require('strict')",
    "pcall(ffi.cdef, 'struct lb_point { int x; double y; }; int lb_nope(int); enum lb_e { LB_A, LB_B = 5 };')",
    "function target(a, b) local c = a return c, b end",
]


def _ffi(source: RandomLua) -> str:
    kind = source.one(
        "'int'",
        "'struct lb_point'",
        "'char[4]'",
        "'int[?]'",
        "'const char *'",
        "'double'",
        "'uint8_t'",
        "'uint64_t'",
        "'void *'",
        "'nope'",
        "'int['",
        "'struct lb_none'",
        "'enum lb_e'",
        "'int (*)(int)'",
        "'bool'",
        "'float'",
        "''",
        "'int x'",
        "'int *'",
        "'short'",
        "'complex'",
        "'int64_t'",
        "'struct tt_uuid'",
        "'const int'",
        "'long'",
        "'size_t'",
    )
    value = source.one(source.value(), source.small(0), "{1, 2}", "{x = 1}", "'abc'")
    declared = source.one("'int lb_ok(int);'", "'struct lb_q {'", "'nope x;'", "'typedef int;'")
    made = f"ffi.new({source.arguments(kind, value)})"
    return source.one(
        f"tostring({made}):gsub('0x%x+', 'P')",
        f"tostring(ffi.typeof({source.arguments(kind)}))",
        f"ffi.sizeof({source.arguments(kind)})",
        f"ffi.alignof({source.arguments(kind)})",
        f"ffi.offsetof({source.arguments(repr('struct lb_point'), source.quoted('y z x'))})",
        f"tostring(ffi.cast({kind}, {source.one(source.small(0), source.table(), 'true')})):gsub('0x%x+', 'P')",
        f"ffi.istype({source.arguments(kind, made)})",
        f"ffi.string({source.one(repr('abc'), 'ffi.new(' + repr('char[4]') + ', {97, 98})')}, {source.small(0, 3)})",
        f"ffi.string({source.one(source.table(), 'true', 'print')})",
        f"ffi.fill({source.one('ffi.new(' + repr('char[4]') + ')', source.table(), 'true')}, 2, {source.value()})",
        f"x = ffi.new('char[8]') ffi.copy(x, {source.one(repr('abc'), source.table(), 'print')}, 2) return x[1]",
        f"ffi.abi({source.arguments(source.quoted('64bit le nope'))})",
        "ffi.errno(5) return ffi.errno()",
        f"ffi.cdef({source.one(declared, source.value())})",
        f"ffi.metatype({source.arguments(repr('struct lb_none'), '{}')})",
        f"ffi.C.{source.word('LB_B zzz strlen')}({source.one(source.text(), source.table(), 'true')})",
        f"p = ffi.new('struct lb_point') p.{source.word('x y z')} = {value} return p.x, p.y",
        f"p = ffi.new('struct lb_point', {value}) return p.{source.word('x y z x.q')}",
        f"p = ffi.new('int[3]') p[{source.small(0, 2)}] = {value} return p[0]",
        f"x = {made} return x {source.one('+', '-', '<', '==', '..', '*')} {value}",
        f"x = {made} return #x",
        f"x = {made} return x.a",
        f"x = {made} return x({source.values(1)})",
        f"tonumber({made})",
        f"ffi.load({source.arguments(repr('lb_nope'))})",
        f"ffi.{source.word('gc nope typeof sizeof istype offsetof')}({source.values(3)})",
        f"ffi.{source.one('os', 'arch')}",
    )


def _debug(source: RandomLua) -> str:
    what = source.one("'S'", "'l'", "'u'", "'n'", "'f'", "'nope'", "'>S'", "'L'", "''", "'nSlu'")
    function = source.one("target", "print", "1", "0", "100", "-1", source.value())
    return source.one(
        f"i = debug.getinfo({source.arguments(function, what)}) if i then i.func, i.activelines = nil end return i",
        f"debug.getlocal({source.arguments(source.word('target 1 0 100'), source.small())})",
        f"debug.setlocal(1, {source.small()}, {source.value()})",
        f"debug.getupvalue({source.arguments('target', source.small())})",
        f"debug.setupvalue({source.arguments('target', source.small(), '1')})",
        f"debug.upvalueid({source.arguments('target', source.small())})",
        f"debug.upvaluejoin({source.values(4)})",
        f"debug.traceback({source.one('nil', source.table(), 'print', 'coroutine.create(print)')}) ~= 1",
        f"debug.getmetatable({source.arguments(source.table())})",
        f"debug.setmetatable({source.table()}, {source.one('{}', 'nil', '5', source.table())}) ~= nil",
        f"debug.sethook({source.one('', source.values(1))})",
        "debug.gethook()",
        f"debug.getfenv({source.arguments('target')}) == _G",
        f"debug.setfenv({source.arguments('target', '{}')}) == target",
        f"debug.{source.word('nope sourcefile sourcedir getlocal getupvalue')}({source.values(2)})",
        "type(debug.getregistry())",
        f"debug.{source.one('sourcefile', 'sourcedir')}({source.one('', '0', '1', '2', source.value())})",
    )


def _machine(source: RandomLua) -> str:
    number = source.one(source.number(), source.small(), source.value())
    whole = source.one(source.number(), source.small(), source.text(), source.table())
    return source.one(
        f"jit.{source.word('on off flush')}({source.arguments('target', source.one('true', 'false'))})",
        f"jit.{source.one('nope', 'version_num > 20000', 'os', 'arch', 'attach')}",
        f"type(jit.status({source.values(1)}))",
        f"jit.{source.word('on off flush attach')}({source.values(2)})",
        f"jit.opt.start({source.one('3', repr('hotloop=10'), repr('nope'), source.value())})",
        f"require('jit.{source.word('nope util opt')}') ~= nil",
        f"bit.{source.word('band bor bxor lshift rshift arshift rol ror')}({whole}, {source.small()})",
        f"bit.{source.word('bnot bswap tobit')}({whole})",
        f"bit.tohex({whole}, {source.small()})",
        f"math.{source.word('floor ceil abs sqrt exp log sin tan asin deg rad frexp modf')}("
        f"{source.arguments(number)})",
        f"math.{source.word('max min fmod pow atan2 ldexp log')}({source.arguments(number, number)})",
        f"math.{source.one('random', 'randomseed')}({source.one('1', '0', '2, 1', '5, 5', '{}', repr('x'))}) ~= {{}}",
        f"math.{source.word('nope huge pi log10 cosh')}({source.values(2)})",
        f"coroutine.{source.word('create wrap resume status yield running isyieldable close')}({source.values(2)})",
        f"c = coroutine.create(function(a) local b = coroutine.yield(a) error(b) end) return "
        f"coroutine.resume(c, {source.value()})",
        f"c = coroutine.create(function(a) local b = coroutine.yield(a) error(b) end) coroutine.resume(c) "
        f"return coroutine.resume(c, {source.value()})",
        f"c = coroutine.wrap(function() error({source.value()}) end) c()",
        "c = coroutine.create(function() end) coroutine.resume(c) return coroutine.resume(c), coroutine.status(c)",
        f"collectgarbage({source.one(source.quoted('step stop restart nope'), '5')}) ~= nil",
    )


def _said(source: RandomLua) -> str:
    option = source.one("'a=number'", "{'a', 'number+'}", "'b'", "{'a', 'nope'}", "{'b', 'boolean'}", "5", "{'a'}")
    return source.one(
        f"strict.on() return undefined_{source.small(0, 3)}",
        f"strict.on() {source.word('x_1 y_2')} = {source.value()} return x_1",
        f"strict.off() return undefined_{source.small(0, 3)}",
        f"strict.{source.word('nope on off')}({source.values(2)})",
        "strict.on() local f = loadstring('z_1 = 1') return pcall(f)",
        f"strict.on() function defined_{source.small(0, 3)}() end return type(defined_1)",
        f"strict.on() return rawget(_G, 'nope'), _G[{source.value()}]",
        f"log.{source.word('info warn error debug verbose')}({source.values(3)})",
        f"log.{source.one('info', 'error')}({source.one(repr('%s'), repr('%d %s'), repr('%z'), repr('%'))}, "
        f"{source.values(2)})",
        f"log.level({source.one('5', '0', '100', '-1', repr('info'), repr('nope'), source.value())})",
        f"log.log_format({source.one(repr('plain'), repr('json'), repr('nope'), source.value())})",
        f"log.cfg{{{source.word('level format nonblock log nope')} = {source.value()}}}",
        f"log.cfg({source.one('nil', '5', repr('x'))})",
        f"log.{source.word('nope pid rotate logger_pid')}({source.one('', source.values(1))})",
        f"log.cfg.{source.word('level format log nonblock nope')}",
        f"require('{source.one('nope', 'a.b', 'json.nope', '')}')",
        "require('box') == box",
        f"require({source.value()})",
        f"package.{source.one('cpath == nil', 'loaded.json ~= nil', 'nope', 'loaders[2]', 'search')}",
        f"package.{source.word('searchroot setsearchroot search loadlib seeall')}({source.values(2)}) ~= 1",
        f"help({source.one('', source.values(1))})",
        f"require('console')."
        f"{source.word('ac delimiter nope eos connect set_default_output get_default_output')}({source.values(1)})",
        f"require('internal.argparse').parse({{{source.quoted('--a=1 -b x --a')}, {source.value()}}}, {{{option}}})",
        f"require('internal.argparse').parse({{{source.quoted('--a=1 -b x --a')}, '1'}}, {{{option}, {option}}})",
        f"require('internal.argparse').parse({source.values(3)})",
    )


def lua_libraries(source: RandomLua) -> list[str]:
    """Return calls of these libraries; what a program changes for all others it sets back."""
    kinds = [_ffi, _debug, _machine, _said]
    return [
        *[source.random.choice(kinds)(source) for _ in range(3)],
        "strict.off() jit.on() debug.sethook() log.level(5) package.setsearchroot(box.NULL)",
    ]
