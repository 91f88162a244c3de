"""Programs with iterators of `fun`: sources, steps, ends, states, functions that fail, operators."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = ["fun = require('fun')"]

NAMES = (
    "all any car cdr chain cycle drop drop_n drop_while each elem_index elem_indices every filter foldl "
    "for_each foreach "
    "grep head index index_of indexes indices intersperse is_null is_prefix_of iter length map max max_by maximum min "
    "min_by minimum nth ones partition product rands range reduce remove_if replicate some span split split_at sum "
    "tabulate tail take take_n take_while tomap totable wrap xrepeat zeros zip duplicate enumerate"
).split()


def _function(source: RandomLua) -> str:
    return source.one(
        "function(x) return x end",
        "function(x) return x ~= 2 end",
        "function(x) return x * 2 end",
        "function(x) return x .. 'a' end",
        "function(...) return ... end",
        "function(x) return x > 1 end",
        "function(x) return nil end",
        "function(x) error('own') end",
        "function(x) error({code = 1}) end",
        "function(x, y) return y, x end",
        "tostring",
        "type",
        "print",
    )


def _iterable(source: RandomLua) -> str:
    small = source.small
    return source.one(
        f"fun.range({source.arguments(small())})",
        f"fun.range({source.arguments(small(), small(), small())})",
        f"fun.range({source.number()}, {source.number()}):take(4)",
        f"fun.iter({source.table()})",
        f"fun.iter({source.value()})",
        f"fun.iter({source.text()})",
        "fun.iter(pairs({5, 6, a = 1}))",
        "fun.iter(ipairs({5, 6, 7}))",
        f"fun.duplicate({source.values(2)}):take(3)",
        "fun.zeros():take(2)",
        "fun.ones():take(2)",
        f"fun.tabulate({_function(source)}):take(4)",
        f"fun.zip({{1, 2, 3}}, {source.value()})",
        f"fun.chain({source.values(3)})",
        f"fun.wrap({source.values(3)})",
        "fun.iter(box.space._collation:pairs())",
        f"fun.rands({source.arguments('1', '2')}):take(2)",
        "fun.iter(('a b c'):gmatch('%a'))",
    )


def _step(source: RandomLua) -> str:
    count, function = source.small(), _function(source)
    return source.one(
        f"map({source.arguments(function)})",
        f"filter({source.arguments(function)})",
        f"take({source.arguments(count)})",
        f"take_n({source.arguments(count)})",
        f"drop({source.arguments(count)})",
        f"drop_n({source.arguments(count)})",
        f"take_while({source.arguments(function)})",
        f"drop_while({source.arguments(function)})",
        "enumerate()",
        f"intersperse({source.value()})",
        "tail()",
        "cycle():take(5)",
        f"chain({source.values(2)})",
        f"zip({source.values(2)})",
        f"indexes({source.value()})",
        f"grep({source.arguments(source.text())})",
        f"span({source.arguments(count)})",
        f"partition({source.arguments(function)})",
    )


def _end(source: RandomLua) -> str:
    function = _function(source)
    return source.one(
        "totable()",
        "length()",
        "sum()",
        "product()",
        "min()",
        "max()",
        f"min_by({source.arguments(function)})",
        f"max_by({source.arguments('function(a, b) return a > b and a or b end')})",
        "head()",
        f"nth({source.arguments(source.small())})",
        f"index({source.value()})",
        "is_null()",
        "tomap()",
        f"foldl({source.arguments('function(a, x) return a .. tostring(x) end', source.plain())})",
        f"foldl({source.arguments('fun.op.add', source.small())})",
        f"all({source.arguments(function)})",
        f"any({source.arguments(function)})",
        f"each({source.arguments(function)})",
        f"is_prefix_of({source.value()})",
        "unwrap()",
        "state",
        "param",
        f"nope({source.small()})",
    )


def _chain(source: RandomLua) -> str:
    steps = [_step(source) for _ in range(source.random.randrange(4))]
    return ":".join([_iterable(source), *steps, _end(source)])


def fun_iterators(source: RandomLua) -> list[str]:
    """Return chains of iterators, their states, functions of the module with any arguments, and operators."""
    name = source.random.choice(NAMES)
    operator = source.one(
        "add",
        "sub",
        "mul",
        "div",
        "mod",
        "pow",
        "concat",
        "land",
        "lor",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "unm",
        "len",
        "length",
        "lnot",
        "truth",
        "floordiv",
        "intdiv",
        "truediv",
        "neq",
        "nope",
    )
    return [
        source.one(
            _chain(source),
            _chain(source),
            _chain(source),
            f"fun.{name}({source.values(4)})",
            f"fun.{name}({_function(source)}, {_iterable(source)})",
            f"fun.{name}({source.value()}, {_iterable(source)})",
            f"fun.op.{operator}({source.values(3)})",
            f"for _it, x in {_iterable(source)}:{_step(source)} do y = x end return y",
            f"it = {_iterable(source)} a = it:totable() b = it:totable() return #a, #b, it:length()",
            f"select('#', {_iterable(source)}:{_step(source)})",
            f"g, p, s = {_iterable(source)} s, v = g(p, s) return v, tostring(g)",
            f"{_iterable(source)}:{_step(source)}.state",
        )
        for _ in range(3)
    ]
