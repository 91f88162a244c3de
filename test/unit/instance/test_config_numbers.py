"""Numbers outside of an option's range are converted as Tarantool converts them to integers, or refused
with its texts.
"""

from __future__ import annotations

import math

import pytest

from box.errors import BoxError, ErrorCode
from box.instance.config import Config

OUT_OF_QUOTA = "must be >= 0 and <= 4398046510080, but it is -9223372036854775808"
AN_ADDRESS = "expected host:service or /unix.socket"


def ignore(_warning: str) -> None:
    """Drop a warning."""


def refusal(options: dict[str, object]) -> str:
    """Return the error text of a first box.cfg with these options."""
    with pytest.raises(BoxError) as caught:
        Config().load(options, ignore)
    assert caught.value.code == ErrorCode.CFG
    return caught.value.message.split(": ", 1)[1]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("checkpoint_count", 2**40, "the value must not be less than one"),
        ("checkpoint_count", math.inf, "the value must not be less than one"),
        ("memtx_memory", math.nan, OUT_OF_QUOTA),
        ("memtx_memory", math.inf, OUT_OF_QUOTA),
        ("memtx_memory", 1e300, OUT_OF_QUOTA),
        ("readahead", math.nan, "specified value is out of bounds"),
        ("replication_synchro_quorum", math.inf, "the value must be greater than zero and less than maximal number"),
        ("slab_alloc_arena", "a", "should be of type number"),
        ("slab_alloc_arena", math.inf, OUT_OF_QUOTA),
        ("listen", 1.5, AN_ADDRESS),
        ("listen", math.nan, AN_ADDRESS),
        ("listen", math.inf, AN_ADDRESS),
        ("listen", 1e300, AN_ADDRESS),
        ("listen", -1, AN_ADDRESS),
        ("replication", math.nan, AN_ADDRESS),
        ("checkpoint_interval", math.nan, "the value must not be NaN"),
        ("replication_timeout", math.nan, "the value must be greather than 0"),
        ("log_level", "a", "expected crit,warn,info,debug,syserror,verbose,fatal,error"),
        ("log_level", True, "must be a number or a string"),
    ],
)
def test_a_number_without_meaning_is_refused(name: str, value: object, reason: str) -> None:
    assert refusal({name: value}).startswith(reason)


@pytest.mark.parametrize("value", [1e300, math.inf, 2**70 * 1.0])
def test_a_huge_number_stays_a_float_that_messagepack_has(value: float) -> None:
    config = Config()
    config.load({"checkpoint_interval": value, "memtx_max_tuple_size": value}, ignore)
    assert isinstance(config["checkpoint_interval"], float)
    assert isinstance(config["memtx_max_tuple_size"], float)


def test_the_log_cannot_change_at_run_time() -> None:
    config = Config()
    config.load({}, ignore)
    with pytest.raises(BoxError) as caught:
        config.changes({"log": "other.txt"}, ignore)
    assert caught.value.message == "Incorrect value for option 'log': can't be set dynamically"


@pytest.mark.parametrize("value", ["", None])
def test_a_static_option_does_not_return_to_its_default(value: object) -> None:
    config = Config()
    config.load({"wal_dir": "wals"}, ignore)
    with pytest.raises(BoxError, match="Can't set option 'wal_dir' dynamically"):
        config.changes({"wal_dir": value}, ignore)


def test_an_option_without_a_value_may_be_given_none_again() -> None:
    config = Config()
    config.load({}, ignore)
    assert config.changes({"pid_file": None}, ignore) == []


def test_the_range_is_checked_before_the_decrease() -> None:
    config = Config()
    config.load({}, ignore)
    with pytest.raises(BoxError, match="but it is -1"):
        config.check_change("memtx_memory", -1)
