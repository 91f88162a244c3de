"""Programs with the functions of string, table, utf8 and iconv."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = ["utf8 = require('utf8')", "iconv = require('iconv')", "uri = require('uri')"]

_LONG = [
    "'abc abc'",
    "'  x  '",
    "'a,b,,c'",
    "'Ünïcödé'",
    "'ÀЯ日本'",
    "'1 2 3'",
    "'%a+'",
    "'.'",
    "'(a)(b)'",
    "'[a-'",
    "'%'",
    "'a-b'",
    "'\\xff\\xfe'",
]
_PATTERNS = [
    "'a'",
    "'%a+'",
    "'(%a)(%d)'",
    "'()'",
    "'.-'",
    "'[^a]'",
    "'%f[%w]%w+'",
    "'%b()'",
    "'[a'",
    "'%'",
    "'(a'",
    "'a)'",
    "'%1'",
    "'^a'",
    "'$'",
    "'%f'",
    "'%b'",
]


def _string(source: RandomLua) -> str:
    text, pattern = source.one(source.text(), source.random.choice(_LONG)), source.random.choice(_PATTERNS)
    number = source.small
    replaced = source.one(
        "'%1'", "'%0%0'", "'%2'", "'%'", "'x'", "{a = 1}", "string.upper", "function() end", "function() return {} end"
    )
    form = source.one(
        "%d",
        "%5.2f",
        "%g",
        "%x",
        "%s",
        "%q",
        "%c",
        "%i",
        "%u",
        "%o",
        "%e",
        "%a",
        "%5s",
        "%-5s|",
        "%.2s",
        "%05d",
        "%+d",
        "%%",
        "%",
        "%z",
        "%10.123d",
        "%s %s",
        "%p",
        "%#x",
        "% d",
        "%1$s",
        "%ld",
        "%5.",
        "%.20g",
    )
    call = source.one(
        f"split({source.arguments(text, source.one(pattern, repr(','), 'nil'), number())})",
        f"split({source.arguments(text)})",
        f"startswith({source.arguments(text, source.text(), number(), number())})",
        f"endswith({source.arguments(text, source.text(), number(), number())})",
        f"{source.word('strip lstrip rstrip')}({source.arguments(text, source.one('nil', repr('a '), repr(' ')))})",
        f"{source.word('ljust rjust center')}("
        f"{source.arguments(text, number(), source.one(repr('*'), repr('ab'), 'nil'))})",
        f"{source.word('hex fromhex len lower upper reverse')}({source.arguments(text)})",
        f"fromhex({source.arguments(source.quoted('6162 616 zz 6F'))})",
        f"find({source.arguments(text, pattern, number(), source.one('true', 'false'))})",
        f"match({source.arguments(text, pattern, number())})",
        f"gsub({source.arguments(text, pattern, replaced, number())})",
        f"gmatch({source.arguments(text, pattern)})()",
        f"sub({source.arguments(text, number(), number())})",
        f"byte({source.arguments(text, number(), number())})",
        f"char({source.values(3)})",
        f"char({number()}, {source.small(0, 300)})",
        f"rep({source.arguments(text, number(), source.text())})",
        f"format({source.arguments(repr(form), source.value())})",
        f"format({source.arguments(repr(form), source.plain(), source.plain())})",
        f"dump({source.arguments('math.abs')})",
        f"{source.one('nope', 'concat')}({source.values(2)})",
    )
    return f"({text}):{call}" if source.chance(0.1) else f"string.{call}"


def _table(source: RandomLua) -> str:
    table = source.one(source.table(), "{3, 1, 2}", "{'b', 'a'}", "{1, 'a'}", "{n = 3, 1}")
    order = source.one("function(a, b) return a > b end", "function() return true end", "nil", "print")
    call = source.one(
        f"concat({source.arguments(table, source.text(), source.small(), source.small())})",
        f"insert(x, {source.arguments(source.value())})",
        f"insert(x, {source.arguments(source.small(), source.value())})",
        f"remove({source.arguments('x', source.small())})",
        f"sort({source.arguments('x', order)})",
        f"maxn({source.arguments('x')})",
        f"getn({source.arguments('x')})",
        f"foreach({source.arguments('x', 'function(k, v) return v end')})",
        f"foreachi({source.arguments('x', 'function(k, v) return k end')})",
        f"copy({source.arguments('x', source.one('nil', 'true'))})",
        f"deepcopy({source.arguments('x')})",
        f"clear({source.arguments('x')})",
        f"new({source.arguments('2', '2')})",
        f"move({source.arguments('x', '1', '2', source.small())})",
        f"unpack({source.arguments('x', '1', '3')})",
        f"{source.word('pack nope')}({source.values(3)})",
    )
    module = "table" if source.chance(0.85) else source.one("require('table.clear')", "require('table.new')")
    if "require" in module:
        return f"{module}({source.values(2)})"
    return f"x = {table} return table.{call}, x"


def _utf8(source: RandomLua) -> str:
    text = source.one(source.text(), source.random.choice(_LONG))
    number = source.small
    call = source.one(
        f"len({source.arguments(text, number(), number())})",
        f"sub({source.arguments(text, number(), number())})",
        f"{source.one('upper', 'lower')}({source.arguments(text)})",
        f"char({source.one('228, 97', '0x10FFFF', '0x110000', '0xD800', '-1', source.values(3))})",
        f"next({source.arguments(text, number())})",
        f"{source.word('isalpha isdigit islower isupper')}("
        f"{source.one(text, repr('a'), repr('Я'), repr('1'), '228', source.value())})",
        f"{source.one('cmp', 'casecmp')}({source.arguments(text, source.one(text, source.text()))})",
        f"{source.one('nope', 'codepoint')}({source.values(2)})",
    )
    return source.one(
        f"utf8.{call}",
        f"utf8.{call}",
        f"x = '' for p, c in utf8.next, {text} do x = x .. p .. ':' .. c .. ' ' end return x",
    )


def _iconv(source: RandomLua) -> str:
    code = source.one
    names = (
        "'UTF-8'",
        "'UTF-16BE'",
        "'UTF-16'",
        "'ASCII'",
        "'KOI8-R'",
        "'CP1251'",
        "'ISO-8859-1'",
        "'nope'",
        "''",
        "'ASCII//TRANSLIT'",
        "'UTF-8//IGNORE'",
        "'UCS-2'",
        "'utf8'",
        "'CP866'",
        "'LATIN1'",
    )
    made = f"iconv.new({source.arguments(code(*names), code(*names))})"
    given = source.one(source.text(), source.random.choice(_LONG), source.value(), "('é'):rep(50)")
    return source.one(
        f"c = {made} r = c({given}) return r:hex()",
        f"c = {made} return c({given})",
        f"{made} ~= nil",
        f"c = {made} return c({source.values(2)})",
    )


def _uri(source: RandomLua) -> str:
    texts = (
        "'h:1'",
        "'u:p@h:1/x?q=1#f'",
        "'http://h/'",
        "'1'",
        "'unix/:/x'",
        "'/x'",
        "'[::1]:5'",
        "'h:x'",
        "'u@h'",
        "'://'",
        "'h:99999'",
        "'::1'",
    )
    return source.one(
        f"uri.parse({source.arguments(source.one(*texts))})",
        f"uri.format(uri.parse({source.one(*texts)}), {source.one('true', 'false', source.value())})",
        f"uri.format({{host = {source.value()}, service = {source.value()}, login = {source.text()}, "
        f"password = {source.value()}}})",
        f"uri.{source.word('format parse nope')}({source.values(3)})",
    )


def texts(source: RandomLua) -> list[str]:
    """Return calls of the libraries that work with texts and tables."""
    return [source.random.choice([_string, _string, _table, _table, _utf8, _iconv, _uri])(source) for _ in range(3)]
