"""Error injections: the list, the types, and the results of `set` and `get` as in Tarantool."""

from __future__ import annotations

import asyncio

import pytest

from box.errinj import ErrorInjections
from box.errors import BoxError


def test_every_name_has_a_state_of_its_type() -> None:
    """`info` lists all injections of Tarantool's debug build with their types."""
    info = ErrorInjections().info()
    assert len(info) == 81
    assert info["ERRINJ_WAL_DELAY"] == {"state": False}
    assert info["ERRINJ_WAL_DELAY_COUNTDOWN"] == {"state": -1}
    assert info["ERRINJ_WAL_FALLOCATE"] == {"state": 0}
    assert type(info["ERRINJ_RELAY_TIMEOUT"]["state"]) is float


def test_set_and_get() -> None:
    """`set` returns `ok`; for a boolean injection any value but false and nil is true, as in Lua."""
    errinj = ErrorInjections()
    assert errinj.set("ERRINJ_WAL_IO", True) == "ok"
    assert errinj.get("ERRINJ_WAL_IO") is True
    errinj.set("ERRINJ_WAL_IO", None)
    assert errinj.get("ERRINJ_WAL_IO") is False
    errinj.set("ERRINJ_WAL_IO", 0)
    assert errinj.get("ERRINJ_WAL_IO") is True
    errinj.set("ERRINJ_WAL_DELAY_COUNTDOWN", 3.0)
    assert errinj.get("ERRINJ_WAL_DELAY_COUNTDOWN") == 3
    errinj.set("ERRINJ_RELAY_TIMEOUT", 1)
    assert errinj.get("ERRINJ_RELAY_TIMEOUT") == 1.0


def test_values_that_are_no_whole_numbers() -> None:
    """As in Tarantool, an injection with a fraction takes what is no number as 0, and whole numbers have 64 bits."""
    errinj = ErrorInjections()
    for value, whole, fraction in ((1.5, 1, 1.5), (2.0**70, -(2**63), 2.0**70), (float("nan"), -(2**63), None)):
        errinj.set("ERRINJ_WAL_DELAY_COUNTDOWN", value)
        errinj.set("ERRINJ_RELAY_TIMEOUT", value)
        assert errinj.get("ERRINJ_WAL_DELAY_COUNTDOWN") == whole
        assert fraction is None or errinj.get("ERRINJ_RELAY_TIMEOUT") == fraction
    for text in ("x", True, None):
        assert errinj.set("ERRINJ_RELAY_TIMEOUT", text) == "ok"
        assert errinj.get("ERRINJ_RELAY_TIMEOUT") == 0.0


def test_an_unknown_name_is_an_answer_not_an_exception() -> None:
    """An unknown name is an error that is returned, not raised, as in Tarantool."""
    errinj = ErrorInjections()
    assert errinj.get("ERRINJ_NO") == "error: can't find error injection 'ERRINJ_NO'"
    assert errinj.set("ERRINJ_NO", 1) == "error: can't find error injection 'ERRINJ_NO'"


@pytest.mark.parametrize("value", [True, None, "7"])
def test_a_number_switch_wants_a_number(value: object) -> None:
    """A number injection takes numbers only, and converts nothing."""
    with pytest.raises(BoxError, match="expected int64_t as 2 argument"):
        ErrorInjections().set("ERRINJ_WAL_DELAY_COUNTDOWN", value)


def test_listeners_are_told_until_they_leave() -> None:
    """`on_change` calls a listener until it unregisters by the function that `on_change` has returned."""
    errinj = ErrorInjections()
    seen: list[object] = []
    forget = errinj.on_change("ERRINJ_WAL_DELAY", seen.append)
    errinj.set("ERRINJ_WAL_DELAY", True)
    forget()
    errinj.set("ERRINJ_WAL_DELAY", False)
    assert seen == [True]


def test_wait_until_off() -> None:
    """A waiter goes on when the injection is switched off, not at another change."""

    async def scenario() -> None:
        errinj = ErrorInjections()
        errinj.set("ERRINJ_SNAP_COMMIT_DELAY", True)
        task = asyncio.create_task(errinj.wait_until_off("ERRINJ_SNAP_COMMIT_DELAY"))
        await asyncio.sleep(0)
        errinj.set("ERRINJ_SNAP_COMMIT_DELAY", True)
        await asyncio.sleep(0)
        assert not task.done()
        errinj.set("ERRINJ_SNAP_COMMIT_DELAY", False)
        await task

    asyncio.run(scenario())


def test_initial_values_come_from_the_environment() -> None:
    """Environment variables named like injections set them at the start; a wrong value is an error."""
    errinj = ErrorInjections()
    errinj.apply_environment(
        {"ERRINJ_WAL_IO": "TRUE", "ERRINJ_WAL_DELAY_COUNTDOWN": "2", "ERRINJ_RELAY_TIMEOUT": "", "HOME": "/"}
    )
    assert errinj.get("ERRINJ_WAL_IO") is True
    assert errinj.get("ERRINJ_WAL_DELAY_COUNTDOWN") == 2
    with pytest.raises(BoxError, match="Incorrect value for boolean ERRINJ_WAL_IO: maybe"):
        errinj.apply_environment({"ERRINJ_WAL_IO": "maybe"})
