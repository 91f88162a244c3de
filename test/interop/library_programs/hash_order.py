"""Programs with HASH indexes: the order of tuples after insertions and deletions."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = ["s = box.schema.space.create('hashed')"]


def _key(source: RandomLua, kind: str) -> str:
    if kind == "unsigned":
        return source.one(source.small(0, 30), str(source.random.randrange(1 << 40)))
    if kind == "integer":
        return source.one(source.small(-20, 20), str(-source.random.randrange(1 << 40)))
    if kind == "string":
        return repr("".join(source.random.choice("abcdé") for _ in range(source.random.randrange(6))))
    if kind == "boolean":
        return source.one("true", "false")
    if kind == "scalar":
        return source.one(source.small(0, 9), "'a'", "true", "1.5", "-2.5")
    return source.one(source.small(-20, 20), "1.5", "-0.25", "1e20", "3.0")


def hash_order(source: RandomLua) -> list[str]:
    """Return changes of a space with a HASH index, and reads of it."""
    kinds = [
        source.one("unsigned", "string", "integer", "number", "scalar", "boolean")
        for _ in range(source.random.choice([1, 1, 1, 2]))
    ]
    parts = ", ".join(f"{{{place}, '{kind}'}}" for place, kind in enumerate(kinds, 1))

    def keys() -> str:
        return ", ".join(_key(source, kind) for kind in kinds)

    rows = [f"s:replace{{{keys()}, {number}}}" for number in range(source.random.randint(2, 20))]
    changes = [
        source.one(f"s:delete{{{keys()}}}", f"s:replace{{{keys()}, 'new'}}") for _ in range(source.random.randint(0, 4))
    ]
    return [
        f"pk = s:create_index('pk', {{type = 'hash', parts = {{{parts}}}}}) " + " ".join(f"{row}" for row in rows),
        *changes,
        "s:select()",
        source.one(
            f"s:select({{{keys()}}}, {{iterator = 'GT'}})",
            f"s:select({{}}, {{limit = {source.small(1, 5)}, offset = {source.small(0, 3)}}})",
            f"s:select({{{keys()}}})",
            "s:pairs():map(function(t) return t[1] end):totable()",
            f"s:select({{{keys()}}}, {{iterator = '{source.word('GE LT EQ REQ ALL')}'}})",
        ),
    ]


CHANGES_MODULES = [
    *MODULES,
    "seed = 1",
    # A generator of its own, because both nodes have to draw the same numbers.
    "function draw(n) seed = (seed * 16807) % 2147483647 return seed % n end",
    "function word(n) return ('k'):rep(draw(4)) .. draw(n) end",
    "function try(name, ...) return (pcall(s[name], s, ...)) end",
    "function order(index) return index:pairs():map(function(t) return t[1] end):totable() end",
]
"""`try` ignores the errors of refused duplicates; `order` returns the primary keys of all tuples."""

_DRAWN = {"unsigned": "draw({})", "integer": "draw({}) - 100", "string": "word({})", "number": "draw({}) / 2"}


def hash_changes(source: RandomLua) -> list[str]:
    """Return changes of a space with several HASH indexes, some of them refused or rolled back, and reads of it."""
    kinds = [source.one(*_DRAWN) for _ in range(source.random.randint(1, 3))]
    width = source.random.choice([8, 30, 300])

    def new() -> str:
        return "{" + ", ".join(_DRAWN[kind].format(width) for kind in kinds) + ", draw(1000)}"

    def key() -> str:
        return "{" + _DRAWN[kinds[0]].format(width) + "}"

    def change() -> str:
        return source.one(
            f"try('insert', {new()})",
            f"try('insert', {new()})",
            f"try('replace', {new()})",
            f"try('delete', {key()})",
            f"try('update', {key()}, {{{{'=', {source.small(1, len(kinds))}, {new()}[1]}}}})",
            f"try('upsert', {new()}, {{{{'=', {source.small(1, len(kinds))}, {new()}[1]}}}})",
        )

    def changes(most: int) -> str:
        return " ".join(change() for _ in range(source.random.randint(1, most)))

    def step() -> str:
        return source.one(
            changes(4),
            f"for i = 1, {source.small(1, 60)} do {changes(3)} end",
            f"box.begin() {changes(4)} {source.word('box.commit() box.rollback()')}",
            f"box.begin() {changes(3)} local p = box.savepoint() {changes(3)} box.rollback_to_savepoint(p) "
            "box.commit()",
            "for _, t in s:pairs() do if draw(3) == 0 then s:delete{t[1]} end end",
            f"for _, t in ipairs(s:select({{}}, {{limit = {source.small(1, 9)}}})) do s:delete{{t[1]}} {changes(2)} "
            "end",
            f"local n = 0 for _, t in s:pairs() do n = n + 1 if n > {source.small(3, 40)} then break end {changes(2)} "
            "end",
            f"s:on_replace(function() if draw(2) == 0 then error('no') end end, nil, 't') {changes(3)} "
            "s:on_replace(nil, s:on_replace()[1])",
            f"s:create_index('late', {{type = 'hash', parts = {{{{1, '{kinds[0]}'}}}}}}) seen = order(s.index.late) "
            "s.index.late:drop() return seen",
        )

    primary = source.word("hash hash hash tree")

    def read() -> str:
        number = source.random.randrange(len(kinds))
        name = f"s.index[{number}]"
        drawn = _DRAWN[kinds[0]].format(width)
        return source.one(
            f"order({name})",
            f"{name}:select({{}}, {{limit = {source.small(1, 9)}, offset = {source.small(0, 9)}}})",
            f"{name}:random({source.small(0, 5000)})" if number or primary == "hash" else f"order({name})",
            f"s:select({{{drawn}}}, {{iterator = 'GT', limit = 5}})",
        )

    indexes = [
        f"s:create_index('i{number}', {{type = '{'hash' if number else primary}', "
        f"parts = {{{{{number + 1}, '{kind}'}}}}}})"
        for number, kind in enumerate(kinds)
    ]
    program = [
        f"seed = {source.random.randrange(1, 1 << 30)} " + " ".join(indexes),
        f"for i = 1, {source.one('3', '20', '100', '400')} do try('{source.word('insert replace')}', {new()}) end",
    ]
    for _ in range(source.random.randint(2, 6)):
        program += [step(), read()]
    return [*program, *(f"order(s.index[{number}])" for number in range(len(kinds)))]
