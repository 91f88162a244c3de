"""The state machine of the applier, tested without sockets against its documented table."""

from __future__ import annotations

import re
from itertools import product

import pytest

from box.errors import BoxError, ErrorCode, client_error
from box.replication import applier_machine
from box.replication.applier_machine import (
    CONNECTION_ERRORS,
    LOADING_ERRORS,
    TRANSITIONS,
    ApplierEvent,
    ApplierMachine,
    ApplierStep,
    Wishes,
)
from box.replication.state import ApplierState as State

REFUSED = BoxError(ErrorCode.READONLY, "because")


def machine_in(state: State) -> tuple[ApplierMachine, list[State]]:
    entered: list[State] = []
    machine = ApplierMachine(entered.append)
    machine.state = state
    return machine, entered


def documented() -> dict[tuple[State, ApplierEvent], tuple[State, ...]]:
    """Return the transitions of the table in the module's docstring."""
    text = (applier_machine.__doc__ or "").split("```")[1]
    lines = [re.split(" {2,}", line) for line in text.splitlines()]
    rows = [line for line in lines if len(line) == 4 and line[1] in ApplierEvent.__members__]
    return {
        (State[state], ApplierEvent[event]): tuple(State[name] for name in path.split(", "))
        for state, event, _, path in rows
    }


def test_the_table_of_the_docstring_is_the_one_that_runs() -> None:
    assert documented() == TRANSITIONS


@pytest.mark.parametrize(("state", "event"), list(product(State, ApplierEvent)))
def test_every_event_in_every_state(state: State, event: ApplierEvent) -> None:
    """Each event leads where the table says, through all states that listeners see; transitions that it lacks raise."""
    machine, entered = machine_in(state)
    path = TRANSITIONS.get((state, event))
    if path is None:
        with pytest.raises(AssertionError, match=f"{state.name} cannot handle {event.name}"):
            machine.handle(event)
        assert (machine.state, entered) == (state, [])
    else:
        machine.handle(event)
        assert (machine.state, tuple(entered)) == (path[-1], path)


def test_every_state_can_be_reached_and_left() -> None:
    entered = {state for path in TRANSITIONS.values() for state in path}
    assert entered | {State.OFF, State.LOADING, State.DISCONNECTED, State.STOPPED} == set(State)
    passed = {state for path in TRANSITIONS.values() for state in path[:-1]}
    assert {state for state, _ in TRANSITIONS} | passed | {State.FOLLOW} == set(State)


@pytest.mark.parametrize("state", list(State))
def test_every_error_in_every_state(state: State) -> None:
    """After an error the applier retries by itself in LOADING and DISCONNECTED, and waits for a person in STOPPED."""
    for code in ErrorCode:
        check_error(state, code)


def check_error(state: State, code: ErrorCode) -> None:
    machine, entered = machine_in(state)
    machine.is_connected = True
    error = BoxError(code, "because")
    failure = machine.failure_of(error, is_self=False)
    assert (machine.state, entered) == (state, []), "a question changes nothing"
    machine.fail(error, failure)
    if code in LOADING_ERRORS:
        wanted, tries_again = State.LOADING, True
    elif code in CONNECTION_ERRORS:
        wanted, tries_again = State.DISCONNECTED, True
    else:
        wanted, tries_again = State.STOPPED, False
    assert (machine.state, entered, failure.tries_again) == (wanted, [wanted], tries_again)
    assert (machine.error, machine.is_connected) == (error, False)
    machine.handle(ApplierEvent.START)
    assert machine.error is error, "shown until the peer answers"
    machine.handle(ApplierEvent.GREETED)
    assert (machine.error, machine.is_connected) == (None, True)


def test_a_connection_to_itself() -> None:
    """A connection to the instance itself counts as connected without running; the same error of another instance is a
    refusal.
    """
    machine, entered = machine_in(State.CONNECTED)
    error = client_error(ErrorCode.CONNECTION_TO_SELF)
    machine.fail(error, machine.failure_of(error, is_self=True))
    assert (machine.state, machine.is_connected, machine.error, entered) == (State.OFF, True, None, [State.OFF])
    machine, _ = machine_in(State.CONNECTED)
    machine.fail(error, machine.failure_of(error, is_self=False))
    assert (machine.state, machine.error) == (State.STOPPED, error)


@pytest.mark.parametrize("code", [ErrorCode.SYSTEM, ErrorCode.LOADING, ErrorCode.READONLY])
def test_a_join_that_has_begun_to_receive_does_not_begin_anew(code: ErrorCode) -> None:
    """Any error during a join that has received rows stops the applier for good."""
    for path in ([ApplierEvent.JOIN, ApplierEvent.SNAPSHOT_END, ApplierEvent.ROWS_END], [ApplierEvent.FETCH]):
        for length in range(1, len(path)):
            machine, _ = machine_in(State.READY)
            machine.handle(path[0])
            machine.has_received = True
            for event in path[1:length]:
                machine.handle(event)
            assert machine.failure_of(BoxError(code, "because"), is_self=False).state is State.STOPPED
    machine, _ = machine_in(State.FINAL_JOIN)
    machine.has_received = True
    machine.handle(ApplierEvent.ROWS_END)
    assert machine.failure_of(BoxError(ErrorCode.SYSTEM, "because"), is_self=False).state is State.DISCONNECTED


def test_an_attempt_after_a_broken_join_is_a_new_one() -> None:
    machine, _ = machine_in(State.INITIAL_JOIN)
    machine.has_received = True
    machine.fail(REFUSED, machine.failure_of(REFUSED, is_self=False))
    machine.handle(ApplierEvent.START)
    assert machine.failure_of(BoxError(ErrorCode.SYSTEM, "because"), is_self=False).tries_again


def test_the_log_tells_of_an_error_once() -> None:
    """The log has each error code once, until a subscription succeeds or another code comes in between."""
    machine, _ = machine_in(State.CONNECT)
    lost, refused = BoxError(ErrorCode.SYSTEM, "lost"), BoxError(ErrorCode.LOADING, "not yet")
    told = []
    for error in (lost, lost, refused, refused, lost, lost):
        failure = machine.failure_of(error, is_self=False)
        told.append(failure.is_news)
        machine.fail(error, failure)
        machine.handle(ApplierEvent.START)
    assert told == [True, False, True, False, True, False]
    machine.state = State.READY
    machine.handle(ApplierEvent.SUBSCRIBED)
    assert machine.failure_of(lost, is_self=False).is_news


@pytest.mark.parametrize("state", list(State))
def test_the_end(state: State) -> None:
    """A cancelled applier is OFF and says so at each call; one that ends with an error is STOPPED."""
    machine, entered = machine_in(state)
    machine.is_connected = True
    machine.stop()
    machine.stop()
    assert (machine.state, entered, machine.is_connected) == (State.OFF, [State.OFF, State.OFF], False)
    machine, entered = machine_in(state)
    machine.stop(REFUSED)
    assert (machine.state, entered, machine.error) == (State.STOPPED, [State.STOPPED], REFUSED)


def test_the_states_in_which_rows_are_written() -> None:
    writing = {state for state in State if machine_in(state)[0].is_writing}
    assert writing == {State.REGISTER, State.SYNC, State.FOLLOW}


# -- choices ------------------------------------------------------------------------------------------------------

STEPS = [
    # may_go_on, may_subscribe, wants_everything, is_anonymous, is_registered
    (Wishes(False, False, False, False, False), ApplierStep.WAIT),
    (Wishes(True, False, False, False, False), ApplierStep.WAIT),
    (Wishes(True, False, True, False, False), ApplierStep.JOIN),
    (Wishes(True, True, True, False, True), ApplierStep.JOIN),
    (Wishes(True, False, True, True, False), ApplierStep.FETCH_SNAPSHOT),
    (Wishes(True, True, False, False, True), ApplierStep.SUBSCRIBE),
    (Wishes(True, True, False, True, False), ApplierStep.SUBSCRIBE),
    (Wishes(True, True, False, True, True), ApplierStep.SUBSCRIBE),
    (Wishes(True, True, False, False, False), ApplierStep.REGISTER),
]


@pytest.mark.parametrize(("wishes", "step"), STEPS)
def test_choices_of_a_guest(wishes: Wishes, step: ApplierStep) -> None:
    machine, _ = machine_in(State.CONNECTED)
    assert machine.next_step(wishes, has_login=False) is step
    assert machine.state is (State.READY if wishes.may_go_on else State.CONNECTED)


@pytest.mark.parametrize(("wishes", "step"), STEPS)
def test_choices_of_a_user(wishes: Wishes, step: ApplierStep) -> None:
    """The applier authenticates first, once, if its URI has a user."""
    machine, _ = machine_in(State.CONNECTED)
    if not wishes.may_go_on:
        assert machine.next_step(wishes, has_login=True) is ApplierStep.WAIT
        return
    assert machine.next_step(wishes, has_login=True) is ApplierStep.AUTHENTICATE
    machine.handle(ApplierEvent.LOGIN)
    machine.handle(ApplierEvent.ACCEPTED)
    assert machine.next_step(wishes, has_login=True) is step


@pytest.mark.parametrize("state", sorted(set(State) - {State.CONNECTED, State.READY}, key=lambda state: state.name))
def test_there_is_no_choice_elsewhere(state: State) -> None:
    with pytest.raises(AssertionError, match=f"{state.name} has no choice"):
        machine_in(state)[0].next_step(Wishes(), has_login=False)
