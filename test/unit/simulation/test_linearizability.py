"""The checker of linearizability agrees with a search through all orders."""

from __future__ import annotations

from itertools import permutations
from math import inf
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.testing.simulation.history import ClientCall, Ending
from box.testing.simulation.linearizability import AppendList, Model, Register, Unique, check


def call(name: str, argument: object, began: float, ended: float, result: object = None) -> ClientCall:
    ending = Ending.UNKNOWN if ended == inf else Ending.OK
    return ClientCall("c", name, 1, argument, began, ended, ending, result)


def test_a_read_sees_the_write_before_it() -> None:
    assert check([call("write", 1, 0, 1), call("read", None, 2, 3, 1)], Register()) is None


def test_a_stale_read_is_found() -> None:
    history = [call("write", 1, 0, 1), call("write", 2, 2, 3), call("read", None, 4, 5, 1)]
    violation = check(history, Register())
    assert violation is not None
    assert "read(1, None) -> ok 1" in str(violation)


def test_a_concurrent_read_may_see_either_value() -> None:
    for seen in (None, 1):
        assert check([call("write", 1, 0, 5), call("read", None, 1, 2, seen)], Register()) is None


def test_a_write_of_unknown_outcome_may_come_late_or_never() -> None:
    lost = call("write", 1, 0, inf)
    assert check([lost, call("read", None, 1, 2, None), call("read", None, 8, 9, 1)], Register()) is None
    assert check([lost, call("read", None, 1, 2, None)], Register()) is None
    flipping = [lost, call("read", None, 1, 2, 1), call("read", None, 3, 4, None)]
    assert check(flipping, Register()) is not None


def test_a_failed_write_must_not_be_seen() -> None:
    failed = call("write", 1, 0, 1)
    failed.ending = Ending.FAILED
    assert check([failed, call("read", None, 2, 3, 1)], Register()) is not None


def test_a_lost_append_is_found() -> None:
    history = [call("append", 1, 0, 1), call("append", 2, 2, 3), call("read", None, 4, 5, [2])]
    assert check(history, AppendList.of(history)) is not None
    history[-1] = call("read", None, 4, 5, [1, 2])
    assert check(history, AppendList.of(history)) is None


def test_a_key_that_is_taken_twice_is_found() -> None:
    history = [call("insert", "a", 0, 1, True), call("insert", "b", 2, 3, True)]
    assert check(history, Unique()) is not None
    history.insert(1, call("delete", None, 1.2, 1.8))
    assert check(history, Unique()) is None


def test_a_model_refuses_what_it_does_not_know() -> None:
    for model in (Register(), AppendList.of(()), Unique()):
        with pytest.raises(ValueError, match="has no 'jump'"):
            check([call("jump", None, 0, 1)], model)


def by_all_orders(operations: list[ClientCall], model: Model) -> bool:
    """Check a history by its definition: try all orders."""
    certain = [one for one in operations if one.ended != inf]
    unknown = [one for one in operations if one.ended == inf]
    for chosen in range(1 << len(unknown)):
        taken = certain + [one for i, one in enumerate(unknown) if chosen >> i & 1]
        if any(_explains(list(order), model) for order in permutations(taken)):
            return True
    return False


def _explains(order: list[ClientCall], model: Model) -> bool:
    state = model.initial
    for i, operation in enumerate(order):
        if any(later.ended < operation.began for later in order[i + 1 :]):
            return False
        is_possible, state = model.step(state, operation)
        if not is_possible:
            return False
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[ClientCall]:
    operations = []
    for _ in range(draw(st.integers(0, 5))):
        began = draw(st.integers(0, 8))
        ended = draw(st.one_of(st.integers(began + 1, 10), st.just(inf)))
        name = draw(st.sampled_from(["write", "read", "cas"]))
        value = st.sampled_from([None, 1, 2])
        argument = (draw(value), draw(value)) if name == "cas" else draw(value)
        result = draw(st.booleans()) if name == "cas" else draw(value)
        operations.append(call(name, argument, began, ended, result))
    return operations


@settings(max_examples=120, deadline=None)
@given(histories())
def test_the_search_agrees_with_the_definition(operations: list[ClientCall]) -> None:
    assert (check(operations, Register()) is None) == by_all_orders(operations, Register())


class AnyAppend:
    """A list in which every append is allowed."""

    initial = ()

    def step(self, state: tuple[int, ...], operation: ClientCall) -> tuple[bool, tuple[int, ...]]:
        if operation.name == "append":
            return True, (*state, operation.argument)
        return operation.ending is not Ending.OK or tuple(operation.result) == state, state


@st.composite
def list_histories(draw: st.DrawFn) -> list[ClientCall]:
    operations, values = [], draw(st.integers(0, 3))
    for number in range(draw(st.integers(0, 5))):
        began = draw(st.integers(0, 8))
        ended = draw(st.one_of(st.integers(began + 1, 10), st.just(inf)))
        if number < values:
            operations.append(call("append", number, began, ended))
        else:
            seen = draw(st.permutations(range(values)))[: draw(st.integers(0, values))]
            operations.append(call("read", None, began, ended, seen))
    return operations


@settings(max_examples=200, deadline=None)
@given(list_histories())
def test_the_search_in_lists_agrees_with_the_definition(operations: list[ClientCall]) -> None:
    assert (check(operations, AppendList.of(operations)) is None) == by_all_orders(operations, AnyAppend())


def test_appends_of_unknown_outcome_are_no_longer_search() -> None:
    """Dozens of appends without an answer, of which every second has taken effect, do not slow the search down."""
    operations, seen = [], []
    for number in range(80):
        operations.append(call("append", number, number, inf))
        if number % 2:
            seen = [number, *seen]
    operations += [call("read", None, 100 + number, 101 + number, seen[: number + 1]) for number in range(len(seen))]
    assert check(operations, AppendList.of(operations)) is None
    lost = [*operations, call("read", None, 200, 201, seen[1:])]
    assert check(lost, AppendList.of(lost)) is not None


def test_a_long_history_is_checked_in_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        operations = []
        for number in range(count):
            operations.append(call("write", number, 10 * number, 10 * number + 5))
            operations.append(call("read", None, 10 * number + 6, 10 * number + 8, number))
        start = process_time()
        assert check(operations, Register()) is None
        return process_time() - start

    # The least of several: a busy machine makes single ones longer.
    assert min(seconds(4000) for _ in range(3)) < 40 * min(seconds(400) for _ in range(5))
