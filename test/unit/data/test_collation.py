"""Collations."""

from __future__ import annotations

import pytest

from box.data import _icu, collation
from box.data.collation import COLLATIONS, collation_by_id, collation_by_name, sort_key, sort_key_function
from box.data.keydef import KeyDef, PartDef
from box.data.types import FieldType
from box.errors import BoxError

WORDS = ["-", "1", "2", "a", "A", "ä", "ab", "aB", "Äb", "b", "Zebra", "\u0430", "\u0411", "\u044f"]
"""Words in the order of `unicode`; the last three are Cyrillic."""

SHUFFLED = WORDS[::2] + WORDS[1::2]

needs_icu = pytest.mark.skipif(_icu.library() is None, reason="no ICU library on this machine")


@pytest.fixture
def without_icu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_icu, "library", lambda: None)
    monkeypatch.setattr(collation, "sort_key_function", sort_key_function.__wrapped__)


def test_the_table() -> None:
    """Ids and names of collations are those of Tarantool's `_collation`."""
    assert len(COLLATIONS) == 277
    assert [one.id for one in COLLATIONS] == list(range(277))
    assert collation_by_name("unicode_ci") is COLLATIONS[2]
    assert (COLLATIONS[43].name, COLLATIONS[43].locale) == ("unicode_de__phonebook_s1", "de_DE_u_co_phonebk")
    assert (COLLATIONS[276].name, COLLATIONS[276].options) == ("unicode_zh__zhuyin_s3", {"strength": "tertiary"})
    assert collation_by_id(277) is None
    assert collation_by_id(-1) is None


def test_binary_collations_compare_bytes() -> None:
    assert sort_key(0, "é") == sort_key(3, "é") == "é".encode()


@needs_icu
def test_unicode() -> None:
    assert sorted(SHUFFLED, key=lambda word: sort_key(1, word)) == WORDS
    assert sort_key(1, "a") != sort_key(1, "A")


@needs_icu
def test_unicode_ci_ignores_case_and_accents() -> None:
    assert sort_key(2, "ÄB") == sort_key(2, "ab")
    assert sort_key(2, "ß") == sort_key(2, "SS")
    assert sort_key(2, "a") < sort_key(2, "B")


@needs_icu
def test_locales_have_their_own_order() -> None:
    """Locales have their own order: in Swedish ä is a letter after z; in Czech ch comes after h."""
    swedish, czech = collation_by_name("unicode_sv_s1"), collation_by_name("unicode_cs_s1")
    assert swedish is not None
    assert czech is not None
    assert sort_key(swedish.id, "ä") > sort_key(swedish.id, "z")
    assert sort_key(czech.id, "ch") > sort_key(czech.id, "hz")
    assert sort_key(1, "ch") < sort_key(1, "hz")


@needs_icu
def test_long_texts_and_lone_surrogates() -> None:
    assert sort_key(1, "x" * 10_000) > sort_key(1, "x" * 9_999)
    assert sort_key(1, "\udcff")


@pytest.mark.usefixtures("without_icu")
def test_without_icu_the_common_order_is_kept() -> None:
    assert sorted(SHUFFLED, key=lambda word: sort_key_of(1, word)) == WORDS
    assert sort_key_of(2, "ÄB") == sort_key_of(2, "ab")
    assert sort_key_of(2, "ß") == sort_key_of(2, "SS")


@pytest.mark.usefixtures("without_icu")
def test_without_icu_locales_are_a_clear_error() -> None:
    with pytest.raises(BoxError, match="A node without the ICU library does not support collation 'unicode_sv_s1'"):
        sort_key_of(211, "a")


def sort_key_of(collation_id: int, text: str) -> bytes:
    return collation.sort_key_function(collation_id)(text)


def test_unknown_ids() -> None:
    with pytest.raises(BoxError, match="collation was not found by ID"):
        sort_key(5000, "a")


@needs_icu
def test_in_keys() -> None:
    key = KeyDef([PartDef(0, FieldType.STRING, collation_id=2), PartDef(1, FieldType.SCALAR, collation_id=2)])
    assert key.extract(["Ab", "X"]) == key.extract(["aB", "x"]) == key.parse(["AB", "x"])
