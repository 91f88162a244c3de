"""The built-in functions of SQL, on Python values: `SCALARS` by name.

Arguments of unexpected types are treated as observed on Tarantool 2.8.1. Later versions are stricter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from box.data.collation import case_function, is_binary, sort_key_function
from box.data.show import value_str
from box.errors import BoxError, ErrorCode, client_error
from box.sql.casts import double_to_integer, text_to_double, text_to_integer
from box.sql.operators import order_key
from box.sql.raw_characters import characters, is_utf8, raw_place
from box.sql.stored_values import (
    INT_MAX,
    Value,
    execute_error,
    inconsistent,
    mismatch,
    number_text,
    raw_bytes,
    time_kind,
)


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in function: its number of arguments, that number in an error text, and the type of its result."""

    name: str
    least: int
    most: int
    expected: str
    returns: str
    call: Callable[..., Any]
    uses_collation: bool = False
    """True if the function gets an additional first argument: the id of the collation of the other arguments."""
    keeps_collation: bool = False
    """True if the result has the collation of the first argument."""

    def check_count(self, count: int) -> None:
        """Check the number of arguments of a call.

        Raises:
            ClientError: FUNC_WRONG_ARG_COUNT.
        """
        if not self.least <= count <= self.most:
            raise client_error(ErrorCode.FUNC_WRONG_ARG_COUNT, self.name, self.expected, count)


ANY_NUMBER: Final = 1000
"""Stands for no limit: the most arguments that SQLite passes to a function."""
SIZE_MAX: Final = 1_000_000_000
_PATTERN_MAX: Final = 50_000
"""Tarantool's limits, which are those of SQLite, for the size of a value in bytes and for a pattern of LIKE."""
UNAVAILABLE: Final = frozenset(
    """
    CEIL CEILING CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATE DATETIME EVERY EXISTS EXP EXTRACT FLOOR GREATER
    JULIANDAY LESSER LN MOD OCTET_LENGTH POWER SOME SQRT STRFTIME TIME
""".split()
)
"""Names that Tarantool reserves; calling one of them raises a special error."""


def as_text(value: Value) -> str:
    """Convert an argument to text."""
    kind = type(value)
    if kind is str:
        given: str = value
        return given
    if kind is bool:
        return "TRUE" if value else "FALSE"
    if kind is bytes:
        other: str = value.decode("utf-8", "surrogateescape")
        return other
    if kind is float:
        return number_text(value)
    return value_str(value) if kind in (list, dict) else str(value)


def _as_bytes(value: Value) -> bytes:
    """Return the bytes of a text or varbinary; those of a map, an array, a decimal or a UUID are its MessagePack."""
    raw = raw_bytes(value)
    return as_text(value).encode("utf-8", "surrogateescape") if raw is None else raw


def as_integer(value: Value) -> int:
    """Convert an argument to a signed integer of 64 bits; 0 if it cannot be converted."""
    kind = type(value)
    found: int | None = None
    if kind is int:
        found = value
    elif kind is float:
        found = double_to_integer(value)
    elif kind is str or kind is bytes:
        found = text_to_integer(value)
    # The functions take a signed integer of 64 bits, which a greater one wraps around to.
    return 0 if found is None else found if found <= INT_MAX else found - 2**64


def _as_double(value: Value) -> float:
    kind = type(value)
    if kind in (int, float):
        return float(value)
    if kind is str or kind is bytes:
        return text_to_double(value) or 0.0
    return 0.0


def _abs(value: Value) -> Value:
    kind = type(value)
    if value is None:
        return None
    if kind is int:
        return abs(value)
    if kind in (float, str):
        return abs(_as_double(value))
    raise inconsistent("number", value)


def _length(value: Value) -> Value:
    if value is None:
        return None
    return len(value) if type(value) is str and value.isascii() else _characters(value)


def _characters(value: Value) -> int:
    raw = raw_bytes(value)
    return len(characters(as_text(value)) if raw is None else raw)


def _case(is_upper: bool) -> Callable[..., Value]:
    def apply(value: Value, collation: int = 0) -> Value:
        if value is None:
            return None
        if raw_bytes(value) is not None:
            raise inconsistent("text", value)
        return case_function(collation, is_upper)(as_text(value))

    return apply


def _coalesce(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _nullif(collation: int, left: Value, right: Value) -> Value:
    if left is not None and right is not None and order_key(left, collation) == order_key(right, collation):
        return None
    return left


def chosen(is_greatest: bool, collation: int, *values: Value) -> int | None:
    """Return the place of the value that GREATEST or LEAST gives; None if one is nil."""
    if None in values:
        return None
    keys = [order_key(value, collation) for value in values]
    # Of equal arguments Tarantool's GREATEST gives the first one and its LEAST the last one.
    if is_greatest:
        return max(range(len(keys)), key=keys.__getitem__)
    return min(reversed(range(len(keys))), key=keys.__getitem__)


def _extreme(is_greatest: bool) -> Callable[..., Any]:
    def apply(collation: int, *values: Value) -> Value:
        place = chosen(is_greatest, collation, *values)
        return None if place is None else values[place]

    return apply


def _hex(value: Value) -> str:
    return "" if value is None else _as_bytes(value).hex().upper()


def _position(collation: int, needle: Value, haystack: Value) -> Value:
    if needle is None or haystack is None:
        return None
    for value in (haystack, needle):
        if type(value) not in (str, bytes):
            raise inconsistent("text or varbinary", value)
    if type(needle) is not type(haystack):
        from box.sql.stored_values import kind_name

        raise inconsistent(kind_name(needle), haystack)
    if type(needle) is bytes or (collation in (0, 3) and is_utf8(haystack) and is_utf8(needle)):
        return haystack.find(needle) + 1
    items, size, wanted = characters(haystack), len(characters(needle)), order_key(needle, collation)
    for start in range(len(items) - size + 1):
        if order_key("".join(items[start : start + size]), collation) == wanted:
            return start + 1
    return 0


def _quote(value: Value) -> Value:
    kind = type(value)
    if value is None:
        return "NULL"
    if kind is int:
        return value
    if kind is str:
        return "'" + value.replace("'", "''") + "'"
    if kind is float:
        text = number_text(value)
        return text if float(text) == value else f"{value:.20e}"
    if kind is bool:
        return "TRUE" if value else "FALSE"
    return f"X'{_as_bytes(value).hex().upper()}'"


def _replace(text: Value, pattern: Value, replacement: Value) -> Value:
    if text is None or pattern is None:
        return None
    source, old = as_text(text), as_text(pattern)
    if not old:
        return source
    return None if replacement is None else source.replace(old, as_text(replacement))


def _round(value: Value, digits: Value = 0) -> Value:
    if value is None or digits is None:
        return None
    if type(value) is bytes:
        raise mismatch(value, "numeric")
    number, count = _as_double(value), max(as_integer(digits), 0)
    # Adding a half rounds away from zero, as Tarantool does for what fits an integer; larger doubles have no fraction.
    # The least double begins 324 places after the point, so more than 350 digits change nothing.
    if count or abs(number) >= 9.2e18:
        return float(f"{number:.{min(count, 350)}f}")
    return float(int(number + 0.5)) if number >= 0 else -float(int(-number + 0.5))


_SOUNDEX: Final = {
    letter: code for code, letters in enumerate(("BFPV", "CGJKQSXZ", "DT", "L", "MN", "R"), 1) for letter in letters
}


def _soundex(value: Value) -> str:
    if type(value) is bytes:
        raise mismatch(value, "text")
    found = re.search(r"[A-Za-z].*", "" if value is None else as_text(value), re.DOTALL)
    if found is None:
        return "?000"
    text = found.group().upper()
    codes, before = text[0], _SOUNDEX.get(text[0], 0)
    for letter in text:
        code = _SOUNDEX.get(letter, 0)
        if code and code != before:
            codes += str(code)
        before = code
    return (codes + "000")[:4]


def _substr(value: Value, start: Value, length: Value = 2**62) -> Value:
    """Return the part of a text that begins at the place `start`.

    Place 1 is the first character, -1 the last one, and 0 lies before the first. A negative length asks for the
    characters before that place.
    """
    if start is None or length is None or value is None:
        return None
    items = value if type(value) is bytes else characters(as_text(value))
    place, count = as_integer(start), as_integer(length)
    begin = len(items) + place if place < 0 else place - 1
    first, last = (begin, begin + count) if count >= 0 else (begin + count, begin)
    part = items[max(first, 0) : max(last, 0)]
    return "".join(part) if isinstance(part, list) else part


_SIDES: Final = ("", "LEADING", "TRAILING", "BOTH")


def trim(text: Value, side: str, chars: Value = None, has_chars: bool = False) -> Value:
    """Evaluate TRIM. `side` is BOTH, LEADING, TRAILING, or '' if the call has no side."""
    if text is None or (has_chars and chars is None):
        return None
    if not side and type(chars) is int:
        # As in 2.8, an integer before FROM is taken for the number of a side.
        side, chars, has_chars = _SIDES[chars & 3], None, False
        if not side:
            return text
    if type(text) not in (str, bytes):
        if not side and not has_chars:
            return ""
        text = as_text(text)
    if type(text) is bytes:
        drop: Any = _as_bytes(chars) if has_chars else b" " if side else b"\0"
    else:
        drop = as_text(chars) if has_chars else " "
    if not drop:
        return text
    if side != "TRAILING":
        text = text.lstrip(drop)
    return text if side == "LEADING" else text.rstrip(drop)


def _unicode(value: Value) -> Value:
    text = "" if value is None else as_text(value)
    if not text or text[0] == "\0":
        return None
    code = ord(text[0])
    return code if not 0xD800 <= code <= 0xDFFF else 0xFFFD  # a byte that is not UTF-8


def _char(*values: Value) -> str:
    codes = (_code(value) for value in values)
    # U+10FFFF is the last code point; U+FFFD is the character that stands for what is none.
    text = "".join(chr(code) if 0 <= code <= 0x10FFFF else "\ufffd" for code in codes)
    # Half of a surrogate pair is no UTF-8, but three bytes as any code point of its size.
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


def _code(value: Value) -> int:
    """Return the code point for an argument of CHAR: only an integer may be negative."""
    found = as_integer(value)
    return found if type(value) is int or found >= 0 else 0


def _zeroblob(value: Value) -> bytes:
    count = max(as_integer(value), 0)
    if count > SIZE_MAX:
        raise execute_error("string or binary string is too big")
    return bytes(count)


def type_name(value: Value, known: str = "", known_nil: str = "boolean") -> str:
    """Evaluate TYPEOF. `known` and `known_nil` are the types of a value and of nil if they are known beforehand, else
    ''; `signed` stands for an integer of any sign.
    """
    kind = type(value)
    if value is None:
        return known_nil
    if kind is int and known == "signed":
        return "integer"
    if known not in ("", "signed"):
        return known
    if kind is bool:
        return "boolean"
    if kind is int:
        return "unsigned" if value >= 0 else "integer"
    return {float: "double", str: "string", list: "array", dict: "map"}.get(kind) or time_kind(value) or "varbinary"


def _same(value: Value, _: Value = None) -> Value:
    return value


class _Letters:
    """Replaces each letter of a text by the first known letter that is equal to it in a collation."""

    def __init__(self, collation: int) -> None:
        self._key = sort_key_function(collation)
        self._first: dict[Any, str] = {}
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        known = self._known
        for letter in set(text).difference(known):
            known[letter] = self._first.setdefault(self._key(letter), letter)
        return "".join(map(known.__getitem__, text))


_letters = lru_cache(32)(_Letters)


@lru_cache(512)
def _like_pattern(pattern: str, escape: str | None, collation: int) -> Callable[[str], Any]:
    """Return a function that matches a text with a LIKE pattern. With a collation, letters are compared one by one."""
    if collation:
        letters = _letters(collation)
        matches = _like_regex(pattern, escape, letters)
        return lambda text: matches(letters(text))
    return _like_regex(pattern, escape, str)


def _like_regex(pattern: str, escape: str | None, same: Callable[[str], str]) -> Callable[[str], Any]:
    parts, letters = [], iter(pattern)
    for letter in letters:
        if letter == "%":  # also if it is the escape
            parts.append(".*")
        elif letter == escape:
            letter = next(letters, "")
            if not letter:
                return lambda text: None
            parts.append(re.escape(same(letter)))
        else:
            parts.append("." if letter == "_" else re.escape(same(letter)))
    return re.compile("".join(parts), re.DOTALL).fullmatch


def like(collation: int, pattern: Value, text: Value, escape: Value = None, has_escape: bool = False) -> Value:
    """Evaluate `text LIKE pattern ESCAPE escape`. The collation decides which letters are equal."""
    if pattern is None or text is None:
        return None
    for value in (pattern, text):
        if type(value) is not str:
            raise inconsistent("text", value)
    if has_escape:
        if escape is None:
            return None
        escape = as_text(escape)
        if len(escape) != 1:
            raise execute_error("ESCAPE expression must be a single character")
    if len(pattern) > _PATTERN_MAX // 4 and len(pattern.encode("utf-8", "surrogateescape")) > _PATTERN_MAX:
        raise execute_error("LIKE pattern is too complex")
    letters = 0 if is_binary(collation) else collation
    wrong = raw_place(pattern)
    if wrong is None:
        return _like_pattern(pattern, escape, letters)(text) is not None
    if _like_pattern(pattern[:wrong] + "%", escape, letters)(text) is not None:
        raise execute_error("LIKE pattern can only contain UTF-8 characters")
    return False


def _entry(
    name: str, least: int, most: int, returns: str, call: Callable[..., Any], expected: str = "", **flags: bool
) -> Builtin:
    return Builtin(name, least, most, expected or str(least), returns, call, **flags)


SCALARS: Final = {
    entry.name: entry
    for entry in (
        _entry("ABS", 1, 1, "number", _abs),
        _entry("CHAR", 0, ANY_NUMBER, "string", _char),
        _entry("CHARACTER_LENGTH", 1, 1, "integer", _length),
        _entry("CHAR_LENGTH", 1, 1, "integer", _length),
        _entry("COALESCE", 2, ANY_NUMBER, "scalar", _coalesce, "at least two"),
        _entry("GREATEST", 2, ANY_NUMBER, "scalar", _extreme(True), "at least two", uses_collation=True),
        _entry("HEX", 1, 1, "string", _hex),
        _entry("IFNULL", 2, 2, "scalar", _coalesce),
        _entry("LEAST", 2, ANY_NUMBER, "scalar", _extreme(False), "at least two", uses_collation=True),
        _entry("LENGTH", 1, 1, "integer", _length),
        _entry("LIKELIHOOD", 2, 2, "boolean", _same),
        _entry("LIKELY", 1, 1, "boolean", _same),
        _entry("LOWER", 1, 1, "string", _case(False), keeps_collation=True),
        _entry("NULLIF", 2, 2, "scalar", _nullif, uses_collation=True),
        _entry("POSITION", 2, 2, "integer", _position, uses_collation=True),
        _entry("QUOTE", 1, 1, "string", _quote),
        _entry("REPLACE", 3, 3, "string", _replace, keeps_collation=True),
        _entry("ROUND", 1, 2, "integer", _round, "1 or 2"),
        _entry("SOUNDEX", 1, 1, "string", _soundex),
        _entry("SUBSTR", 2, 3, "string", _substr, "1 or 2", keeps_collation=True),
        _entry("TYPEOF", 1, 1, "string", type_name),
        _entry("UNICODE", 1, 1, "string", _unicode),
        _entry("UNLIKELY", 1, 1, "boolean", _same),
        _entry("UPPER", 1, 1, "string", _case(True), keeps_collation=True),
        _entry("ZEROBLOB", 1, 1, "varbinary", _zeroblob),
    )
}
"""The functions that depend only on their arguments. The compiler handles TRIM, PRINTF and functions that need the
session.
"""


def not_available(name: str) -> BoxError:
    """Make the error `function EXP() is not available in SQL`."""
    return client_error(ErrorCode.SQL_PARSER_GENERIC, f"function {name}() is not available in SQL")
