"""JSON paths."""

from __future__ import annotations

import pytest

from box.data.json_path import ANY_INDEX, PathError, follow, parse_path, path_text


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", ()),
        ("a", ("a",)),
        ("_a1.b", ("_a1", "b")),
        ("[1]", (0,)),
        ("a.b[1]", ("a", "b", 0)),
        ("[2][\"key\"]['other'].x", (1, "key", "other", "x")),
        ('["with ] and ."]', ("with ] and .",)),
        ("[*].b", (ANY_INDEX, "b")),
        ("ключ", ("ключ",)),
    ],
)
def test_parse(text: str, steps: tuple[object, ...]) -> None:
    assert parse_path(text) == steps


@pytest.mark.parametrize(
    ("text", "position"),
    [
        *[
            ("+", 1),
            (".", 2),
            ("a.", 3),
            ("a..b", 3),
            ("[", 1),
            ("[]", 2),
            ("[0]", 2),
            ("[1", 3),
            ("['a", 4),
            ("['']", 3),
        ],
        *[("a b", 2), ("[1]a", 4), ("a.1", 3), ("[1x]", 3), ('["a"', 5), ("[*", 3)],
    ],
)
def test_error_positions(text: str, position: int) -> None:
    """Positions in error texts count characters from one."""
    with pytest.raises(PathError, match=f"invalid JSON in position {position}$"):
        parse_path(text)


def test_text() -> None:
    assert path_text((2, "FIO", "fname", 0, ANY_INDEX)) == '[3]["FIO"]["fname"][1][*]'


def test_follow() -> None:
    """Following a path that leads nowhere returns None."""
    value = {"a": [{"b": 1}, 2]}
    assert follow(value, ("a", 0, "b")) == 1
    assert follow(value, ()) is value
    for path in (("a", 2), ("b",), ("a", 0, 0), ("a", 1, "b"), (0,)):
        assert follow(value, path) is None
