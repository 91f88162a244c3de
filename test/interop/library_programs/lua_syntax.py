"""Programs with errors that Lua's parser and its machine find: texts, names of variables, numbers of lines.

Statements end with a semicolon, so that they may have several lines. A carriage return ends a line.
"""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = ["require('console').delimiter(';')", "t = {a = {b = 1}, f = function(x) return x.y end, s = 'text', n = 5};"]

_TOKENS = (
    "if then else elseif end for in do while repeat until function local return break and or not nil true false goto "
    "x y t t.a t.a.b t['s'] 1 2.5 0x1F 5LL 3ULL 2i 1e 0x 'a' \"b\" [[c]] [=[d]=] ... .. . : :: , ; = == ~= ~ "
    "< <= > >= + - * / "
    "% ^ # ( ) { } [ ] @ ! $ ? ` \\ 'open --c --[[d]] ::l:: goto\u00a0l é 'é' 'a\\x41' 'a\\q' '\\300' "
    "1..2 1.e5 .5 5."
).split(" ")


def _soup(source: RandomLua) -> str:
    chosen = [source.random.choice(_TOKENS) for _ in range(source.random.randint(1, 8))]
    return source.one(" ", " ", "\r", "").join(chosen)


def _name(source: RandomLua) -> str:
    return source.one(
        "x", "t.a", "t.a.b", "t.zz", "t.zz.y", "t.s", "t.n", "t['n']", "t[1]", "box.cfg.nope", "t.f", "_G.q"
    )


def _operation(source: RandomLua) -> str:
    operator = source.one("+", "-", "*", "/", "%", "^", "..", "<", "<=", ">", "==")
    one = source.one(source.value(), _name(source))
    other = source.one(source.value(), _name(source))
    return f"{one} {operator} {other}" if source.chance(0.8) else f"{source.one('#', '-', 'not ')}{one}"


def _wrong_use(source: RandomLua) -> str:
    a, name = source.value(), _name(source)
    return source.one(
        f"return {name}.x.y",
        f"return {name}()",
        f"return {name}:m()",
        f"return {name}:m(1).z",
        f"{name}.q = {a}",
        f"{name}[nil] = {a}",
        f"{name}[0/0] = 1",
        f"local up = {a} local function inner() return up.x end return inner()",
        f"local up = {a} local function inner() up() end inner()",
        f"local v = {a} v.k = 1 return v.k",
        f"local v = {a} return v + 1",
        f"local v = {a} return v .. 'x'",
        f"local v = {a} return v < {source.value()}",
        f"local v = {a} v()",
        "local v = {} return v.w.x",
        "local v = {} v.w.x = 1",
        f"local v = {{w = {a}}} return v.w()",
        f"local v = {{w = {a}}} return v.w + v.z",
        f"for i = {source.arguments('1', '3', '1')} do x = i end return x",
        f"for k, v in {a} do x = k end return x",
        f"for k, v in {source.one('pairs', 'ipairs', 'next,')}({a}) do y = v end return y",
        f"t.f({a})",
        f"(function(...) local a, b = ... return a + b end)({source.values(3)})",
        f"({a})({source.values(2)})",
        f"return -{a}, #{source.value()}",
        f"goto done do local x = {a} end ::done:: return 1",
        f"return ({a}).x",
        f"t.a.b.c = {a}",
        "local function f() return f() + 1 end return f()",
        f"x = setmetatable({{}}, {{__index = {a}}}) return x.y",
        f"x = setmetatable({{}}, {{__call = {a}}}) return x(1)",
        f"x = setmetatable({{}}, {{__add = {a}, __concat = print, __lt = {a}}}) return x + 1",
        f"x = setmetatable({{}}, {{__tostring = {a}}}) return tostring(x)",
        f"x = setmetatable({{}}, {{__newindex = {a}}}) x.y = 1 return rawget(x, 'y')",
    )


_FUNCTIONS = (
    "assert collectgarbage dofile dostring error getmetatable ipairs loadfile loadstring load next pairs "
    "pcall rawequal rawget rawset require select setfenv setmetatable tonumber tonumber64 tostring type unpack xpcall "
    "newproxy module"
).split()


def _base(source: RandomLua) -> str:
    function = source.random.choice(_FUNCTIONS)
    if function in ("dofile", "loadfile", "require", "module", "collectgarbage"):
        return f"{function}({source.one(source.text(), source.table(), 'true', 'print', '5', 'nope')})"
    return f"{function}({source.values(3)})"


def _nested(source: RandomLua) -> str:
    inner = source.one(_wrong_use(source), _operation(source), _soup(source))
    text = inner.replace("\\", "\\\\").replace("'", "\\'").replace("\r", "\\n")
    return source.one(
        f"loadstring('{text}')",
        f"loadstring('{text}', "
        f"{source.one(repr('=name'), repr('@file.lua'), repr('line'), repr('a' * 90), source.value())})",
        "load(function() local c = code code = nil return c end)",
        f"dostring('{text}')",
        f"pcall(loadstring('{text}'))",
        f"assert(loadstring('{text}'))()",
        f"xpcall(loadstring('{text}') or print, function(e) return 'handled ' .. tostring(e) end)",
        f"pcall(error, {source.values(2)})",
        f"error({source.values(2)})",
        f"assert({source.values(3)})",
        f"coroutine.resume(coroutine.create(loadstring('{text}') or error), {source.values(2)})",
        f"coroutine.wrap(loadstring('{text}') or error)({source.values(2)})",
        f"function named() {inner} end\rreturn named()",
        f"t.m = function(self)\r{inner}\rend return t:m()",
        f"local function deep(n)\r if n == 0 then {inner} end\r return (deep(n - 1))\rend\rreturn deep(3)",
    )


def lua_syntax(source: RandomLua) -> list[str]:
    """Return mistakes: soups of tokens, operations and calls on values of wrong types, functions with any arguments."""
    lines = source.one("", "\r", "\r\r", "local z = 1\r", "--note\r")
    return [
        lines
        + source.one(
            _soup(source),
            f"x = {_soup(source)}",
            f"return {_soup(source)}",
            _operation(source),
            f"return {_operation(source)}, {_operation(source)}",
            _wrong_use(source),
            _wrong_use(source),
            _wrong_use(source),
            _base(source),
            _base(source),
            _nested(source),
            _nested(source),
            source.values(3),
        )
        + ";"
        for _ in range(3)
    ]
