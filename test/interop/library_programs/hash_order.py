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
