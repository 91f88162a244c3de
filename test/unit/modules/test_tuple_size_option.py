"""`memtx_max_tuple_size` has 32 bits, and without a sign a negative number is a huge one, as in Tarantool 2.8.1."""

from __future__ import annotations

import pytest

from .conftest import Lua


@pytest.mark.parametrize(
    ("value", "accepts_small", "accepts_large"),
    [
        ("-1", True, True),
        ("2^31", True, True),
        ("2^32 + 1000", True, False),
        ("2^32", False, False),
        ("2^53", False, False),
        ("1/0", False, False),
        ("-1/0", False, False),
        ("-1e300", False, False),
    ],
)
def test_only_32_bits_count(lua: Lua, value: str, accepts_small: bool, accepts_large: bool) -> None:
    assert lua(
        f"""
        local s = box.schema.space.create('s')
        s:create_index('pk')
        box.cfg{{memtx_max_tuple_size = {value}}}
        return (pcall(s.insert, s, {{1, 'a'}})), (pcall(s.insert, s, {{2, ('x'):rep(1100000)}}))""",
        configure={},
    ) == [accepts_small, accepts_large]


def test_the_size_of_the_log_between_checkpoints_has_64_bits(lua: Lua) -> None:
    assert lua(
        "box.cfg{checkpoint_wal_threshold = -1/0} return box.cfg.checkpoint_wal_threshold == -1/0", configure={}
    ) == [True]
