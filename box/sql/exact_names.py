"""Names in SQL texts of dictionaries that Tarantool 3.0 or later has made.

From 3.0 on an unquoted name is looked up as it is written, and in upper case only if there is no such name. The parser
knows the rule of 2.8, upper case at once. So names that are there as they are written get quotes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from box.sql.parse.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from box.schema.schema import Schema
    from box.schema.space import SpaceDef
    from box.sql.parse.tokens import Token

_BEFORE_TABLES: Final = frozenset(("INTO", "REFERENCES", "ON", "TABLE", "VIEW", "REPLACE"))
"""Keywords after which a name followed by a parenthesis is a table. After other tokens such a name is a function."""


def with_exact_names(schema: Schema, text: str, more: Iterable[str] = ()) -> str:
    """Return a text with quotes around the names that the dictionary has as they are written; `more` are further ones.

    Known names are those of spaces, of the fields and indexes of the spaces in the text, and of functions.
    """
    if not schema.is_of_3:
        return text
    tokens = tokenize(text)
    words = {token.text for token in tokens if token.kind == "ID"}
    known = set(more)
    for word in words:
        space = schema.find_space(word.strip('"')) or schema.find_space(word.upper())
        if space is not None:
            known.update(field.name or "" for field in space.definition.fields)
            known.update(index.definition.name for index in space.indexes.values())
            known.update((space.name,))
    return _quoted(schema, text, tokens, known)


def of_fields(schema: Schema, text: str, space: SpaceDef) -> str:
    """Return an expression with quotes around the names of fields of a space that are there as they are written."""
    return with_exact_names(schema, text, (field.name or "" for field in space.fields))


def _quoted(schema: Schema, text: str, tokens: list[Token], known: Container[str]) -> str:
    parts, at = [], 0
    for number, token in enumerate(tokens):
        if token.kind != "ID" or token.text.startswith('"'):
            continue
        before = tokens[number - 1].kind if number else ""
        after = tokens[number + 1].kind if number + 1 < len(tokens) else ""
        if after == "(" and before not in _BEFORE_TABLES:
            is_known = schema.function_by_name(token.text) is not None
        elif before == "COLLATE":
            is_known = any(collation.name == token.text for collation in schema.collations.values())
        else:
            is_known = token.text in known
        if is_known:
            parts += [text[at : token.start], f'"{token.text}"']
            at = token.end
    return "".join((*parts, text[at:]))
