"""Collations: Tarantool's identifiers and names, and sort keys that compare as bytes.

0 `none` and 3 `binary` compare UTF-8 bytes. 1 `unicode` and 2 `unicode_ci` are ICU's root collation at tertiary and
primary strength; 4 and up are those of a locale, three strengths each (`unicode_<locale>_s1` to `_s3`).

A user's own collation is known by a number above every id, its *order*, which stands for the whole definition: two
nodes of one process may give one id to different collations. Keys, formats and queries hold orders; for a built-in
collation the order is the id.

The exact order is ICU's, so ICU makes the keys if the system has it (`_icu.py`). Without ICU, `unicode` and
`unicode_ci` use an order of our own, which is right for letters, digits and punctuation of common texts; other
collations are an error.

Source of the table: the `_collation` space of a running 2.8.1.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

from box.data import _icu
from box.errors import ErrorCode, client_error, unsupported


class Collation(NamedTuple):
    """A row of `_collation`; `strength` is '' for the binary ones.

    `attributes` are ICU's other attributes with their values, in lower case: `(("case_first", "upper_first"),)`.
    """

    id: int
    name: str
    type: str
    locale: str
    strength: str
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def options(self) -> dict[str, str]:
        return {"strength": self.strength} if self.strength else {}


_STRENGTHS: Final = ("primary", "secondary", "tertiary")

_LOCALES: Final = """
    af am ar as az be bn bs bs_Cyrl ca cs cy da de__phonebook de_AT_phonebook dsb ee eo es es__traditional et fa fi
    fi__phonebook fil fo fr_CA gu ha haw he hi hr hu hy ig is ja kk kl kn ko kok ky lkt ln lt lv mk ml mr mt nb nn
    nso om or pa pl ro sa se si si__dictionary sk sl sq sr sr_Latn sv sv__reformed ta te th tn to tr ug_Cyrl uk ur
    vi vo wae wo yo zh zh__big5han zh__gb2312han zh__pinyin zh__stroke zh__zhuyin
""".split()

_ICU_LOCALES: Final = {
    "de__phonebook": "de_DE_u_co_phonebk",
    "de_AT_phonebook": "de_AT_u_co_phonebk",
    "es__traditional": "es_u_co_trad",
    "fi__phonebook": "fi_u_co_phonebk",
    "si__dictionary": "si_u_co_dict",
    "sv__reformed": "sv_u_co_reformed",
    "ug_Cyrl": "ug",
    "zh__big5han": "zh_u_co_big5han",
    "zh__gb2312han": "zh_u_co_gb2312",
    "zh__pinyin": "zh_u_co_pinyin",
    "zh__stroke": "zh_u_co_stroke",
    "zh__zhuyin": "zh_u_co_zhuyin",
}
"""The ICU locales of the collations whose names do not tell them."""


def _table() -> Iterator[Collation]:
    yield Collation(0, "none", "BINARY", "", "")
    yield Collation(1, "unicode", "ICU", "", "tertiary")
    yield Collation(2, "unicode_ci", "ICU", "", "primary")
    yield Collation(3, "binary", "BINARY", "", "")
    for index, name in enumerate(_LOCALES):
        locale = _ICU_LOCALES.get(name, name)
        for level, strength in enumerate(_STRENGTHS):
            # Three strengths of each locale, after the four collations above.
            yield Collation(4 + 3 * index + level, f"unicode_{name}_s{level + 1}", "ICU", locale, strength)


COLLATIONS: Final = tuple(_table())
"""All built-in collations; the position of each is its id."""

_BY_NAME: Final = {collation.name: collation for collation in COLLATIONS}


def collation_by_name(name: str) -> Collation | None:
    """Return the built-in collation with a name, or None."""
    return _BY_NAME.get(name)


def collation_by_id(collation_id: int) -> Collation | None:
    """Return the built-in collation with an id, or None."""
    return COLLATIONS[collation_id] if 0 <= collation_id < len(COLLATIONS) else None


_FIRST_ORDER: Final = 1 << 32
"""The order of the first collation that a user has made: beyond all ids, which have 32 bits."""
_own: Final[list[Collation]] = []
_orders: Final[dict[Collation, int]] = {}


def order_of(collation: Collation) -> int:
    """Return the order of a collation: its id if it is built in."""
    if collation_by_id(collation.id) == collation:
        return collation.id
    order = _orders.get(collation)
    if order is None:
        order = _orders[collation] = _FIRST_ORDER + len(_own)
        _own.append(collation)
    return order


def collation_of(order: int) -> Collation | None:
    """Return the collation with an order, or None."""
    if order < _FIRST_ORDER:
        return collation_by_id(order)
    return _own[order - _FIRST_ORDER]


def id_of(order: int) -> int:
    """Return the id of the collation with an order."""
    return order if order < _FIRST_ORDER else _own[order - _FIRST_ORDER].id


def name_of(order: int) -> str:
    """Return the name of the collation with an order."""
    return (COLLATIONS[order] if order < _FIRST_ORDER else _own[order - _FIRST_ORDER]).name


def is_own(order: int | None) -> bool:
    """Return whether an order is that of a user's collation."""
    return order is not None and order >= _FIRST_ORDER


def is_binary(order: int | None) -> bool:
    """Return whether there is no collation, or one that compares the UTF-8 bytes."""
    if order in (None, 0, 3):
        return True
    return is_own(order) and _own[(order or 0) - _FIRST_ORDER].type == "BINARY"


def sort_key(order: int, text: str) -> bytes:
    """Return bytes that compare as the collation orders the texts."""
    return sort_key_function(order)(text)


@cache
def sort_key_function(order: int | None) -> Callable[[str], bytes]:
    """Return a function from text to sort key.

    Raises:
        ClientError: WRONG_INDEX_OPTIONS, the order is unknown.
        UnsupportedError: the collation needs ICU.
    """
    if is_binary(order):
        return lambda text: text.encode("utf-8", "surrogateescape")
    collation = collation_of(order or 0)
    if collation is None:
        raise client_error(ErrorCode.WRONG_INDEX_OPTIONS, 1, "collation was not found by ID")
    icu = _icu.library()
    if icu is not None:
        return icu.collator(collation.locale, collation.strength, collation.attributes)
    if collation.locale or collation.attributes or collation.strength not in ("primary", "tertiary"):
        raise unsupported("A node without the ICU library", f"collation '{collation.name}'")
    return _root_primary if collation.strength == "primary" else _root_tertiary


@cache
def compare_function(order: int) -> Callable[[str, str], int]:
    """Return a function that compares two texts: the result is negative, 0 or positive.

    Errors as `sort_key_function`.
    """
    collation, icu = None if is_binary(order) else collation_of(order), _icu.library()
    if collation is not None and icu is not None:
        return icu.comparer(collation.locale, collation.strength, collation.attributes)
    key = sort_key_function(order)

    def compare(left: str, right: str) -> int:
        first, second = key(left), key(right)
        return (first > second) - (first < second)

    return compare


@cache
def case_function(order: int, is_upper: bool) -> Callable[[str], str]:
    """Return the function that changes the case of texts as the language of a collation has it, if ICU is there."""
    collation, icu = collation_of(order), _icu.library()
    if collation is None or not collation.locale or icu is None:
        return str.upper if is_upper else str.lower
    return icu.case(collation.locale, is_upper)


# --- without ICU: base letters, then accents, then case ---

_CLASSES: Final = {"C": 1, "Z": 2, "P": 3, "S": 4, "N": 6, "L": 7, "M": 8}
"""The order of Unicode's general categories at the primary level; currency signs (Sc) are 5."""


def _primary_weight(char: str) -> bytes:
    category = unicodedata.category(char)
    digit = unicodedata.digit(char, None)
    value = ord(char) if digit is None else digit
    # Three bytes hold every code point, the last of which is U+10FFFF.
    return bytes((5 if category == "Sc" else _CLASSES[category[0]],)) + value.to_bytes(3, "big")


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFKD", text)


def _root_primary(text: str) -> bytes:
    folded = _decomposed(_decomposed(text).casefold())
    return b"".join(_primary_weight(char) for char in folded if not unicodedata.combining(char))


def _root_tertiary(text: str) -> bytes:
    plain = _decomposed(text)
    accents, cases = bytearray(), bytearray()
    for char in plain:
        if unicodedata.combining(char):
            accents += ord(char).to_bytes(3, "big")
        else:
            # Lower than any accent, whose code points begin at U+0300: a letter without one sorts before one with it.
            accents += b"\x00\x00\x01"
            cases.append(2 if char.isupper() else 1)
    # The levels end with a byte that is lower than any weight, so that a prefix sorts first at each level.
    return b"\x00".join((_root_primary(text), bytes(accents), bytes(cases)))


def icu_library_files() -> list[str]:
    """Return the files of the machine's ICU: languages, characters. Empty without ICU."""
    return _icu.library_files()
