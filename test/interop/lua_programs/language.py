"""Programs about the language: iterators of `fun`, numbers, and expressions with values of the wrong type."""

from __future__ import annotations

from test.interop.lua_programs.source import Source
from test.interop.random_lua import TABLES


def fun(source: Source) -> list[str]:
    """Iterators of `fun`, with steps and ends."""
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


def numbers(source: Source) -> list[str]:
    """Numbers of all kinds: operators, decimals, formats."""
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


def syntax(source: Source) -> list[str]:
    """Statements of Lua, some of them no statements."""
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
