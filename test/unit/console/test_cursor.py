"""The parser of the text before the cursor: names, calls, strings."""

from __future__ import annotations

import pytest

from console.interactive.cursor import MOST_TEXT, look


@pytest.mark.parametrize(
    ("text", "path", "partial"),
    [
        ("", (), ""),
        ("return bo", (), "bo"),
        ("box.space.go", ("box", "space"), "go"),
        ("x = box.", ("box",), ""),
        ("print(s:ins", ("s",), "ins"),
        ("box.space['goods'].in", ("box", "space", "goods"), "in"),
        ('box.space["goods"].index[0].se', ("box", "space", "goods", "index", "0"), "se"),
        ("a.b + c.d", ("c",), "d"),
        ("f{a.b, c", (), "c"),
        ("-- box.x\ny.z", ("y",), "z"),
        ("box . space . a", ("box", "space"), "a"),
        ("box.space ", (), ""),
    ],
)
def test_names(text: str, path: tuple[str, ...], partial: str) -> None:
    """The dotted name that ends at the cursor is found."""
    place = look(text)
    assert (place.path, place.partial, place.is_known, place.text) == (path, partial, True, None)


@pytest.mark.parametrize("text", ["f(x).a", "('x'):re", "{1}.a", "x[1 + 1].b", "5 .x"])
def test_members_of_unknown_objects(text: str) -> None:
    """The result of a call has no name, so no members are offered after it."""
    assert not look(text).is_known


@pytest.mark.parametrize(
    ("text", "function", "argument", "string"),
    [
        ("require('fi", ("require",), 0, "fi"),
        ("require'fi", ("require",), 0, "fi"),
        ("box.schema.user.grant('guest', 're", ("box", "schema", "user", "grant"), 1, "re"),
        ("f(g(1, 2), ", ("f",), 1, None),
        ("f(1, {2, 3", ("f",), 1, None),
        ("f('a\\'b", ("f",), 0, "a\\'b"),
        ("f('a', [[b", ("f",), 1, "[[b"),
        ("f(function() return g(", ("g",), 0, None),
        ("s:insert{1, ", ("s", "insert"), 1, None),
    ],
)
def test_calls(text: str, function: tuple[str, ...], argument: int, string: str | None) -> None:
    """The innermost named call is found, with the argument's number and the open string."""
    place = look(text)
    assert place.call is not None
    assert (place.call.function, place.call.argument, place.text) == (function, argument, string)


@pytest.mark.parametrize(
    ("text", "key"),
    [("f{type = 'ha", "type"), ("f{type = 'hash', 'x", ""), ("f{type = 'hash', unique = ", "unique")],
)
def test_the_key_of_an_option_ends_at_the_comma(text: str, key: str) -> None:
    place = look(text)
    assert place.calls[-1].key == key


@pytest.mark.parametrize(("text", "is_open"), [("x = [[", True), ("x = [[]", True), ("x = [[]]", False)])
def test_long_strings_end_at_two_brackets(text: str, is_open: bool) -> None:
    assert (look(text).text is not None) == is_open


@pytest.mark.parametrize("text", ["-- box.s", "--[[ box.s", "x = 1 -- 'a"])
def test_comments(text: str) -> None:
    """Inside comments nothing is offered."""
    place = look(text)
    assert place.text is not None
    assert place.calls == ()


def test_a_long_text_costs_no_more_than_its_end() -> None:
    """Only the end of a long text is parsed."""
    assert look("x(" * MOST_TEXT + "box.sp").path == ("box",)


@pytest.mark.parametrize(
    "text", ["\0\xff", "]]]}})))", "'\\", "[==[", "::", "..", "a..b", "\\set", "é.x", "((((", "x = 'a\nb.c"]
)
def test_anything_may_be_typed(text: str) -> None:
    """Random text never raises."""
    for end in range(len(text) + 1):
        look(text[:end])
