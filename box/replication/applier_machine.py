"""The applier's states and the events that change them: a pure state machine without sockets and clocks.

```
state            event          what has happened                                        next
OFF              START          the first attempt to connect                             CONNECT
LOADING          START          the next attempt                                         CONNECT
DISCONNECTED     START          the next attempt                                         CONNECT
STOPPED          START          the user has asked for another attempt                   CONNECT
CONNECT          GREETED        the peer has sent its uuid and its ballot                CONNECTED
CONNECTED        LOGIN          the applier may proceed; the address names a user        AUTH
CONNECTED        ACCEPTED       the applier may proceed, as guest                        READY
AUTH             ACCEPTED       the peer knows the user                                  READY
READY            JOIN           a member of the replica set asks for everything          INITIAL_JOIN
INITIAL_JOIN     SNAPSHOT_END   the peer's snapshot is here                              FINAL_JOIN
FINAL_JOIN       ROWS_END       the rows since the snapshot are here                     JOINED, READY
READY            FETCH          an anonymous replica asks for everything                 FETCH_SNAPSHOT
FETCH_SNAPSHOT   SNAPSHOT_END   the peer's snapshot is here                              FETCHED_SNAPSHOT, READY
READY            REGISTER       an anonymous replica has become a member: ask for an id  REGISTER
REGISTER         ROWS_END       the rows up to the registration are written              REGISTERED, READY
READY            SUBSCRIBED     the peer sends its rows from now on                      SYNC
SYNC             CAUGHT_UP      all that the peer had at SUBSCRIBED is here, lag small   FOLLOW
SYNC             RESUBSCRIBE    other rows are wanted from the peer                      CONNECT
FOLLOW           RESUBSCRIBE    other rows are wanted from the peer                      CONNECT
READY            RESUBSCRIBE    the peer still has the former subscription: try again    CONNECT

any              fail           the peer is not ready, or refuses for now                LOADING, tries again
                                the connection is lost                                   DISCONNECTED, tries again
                                the peer is this instance itself                         OFF
                                a join that had begun to receive rows; other errors      STOPPED
any              stop           cancelled                                                OFF
any              stop(error)    a row of the peer could not be written to the journal    STOPPED
```

`next_step` chooses what the applier does in CONNECTED and READY.
Source: the documentation of replication and Tarantool's `applier.cc`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from box.errors import BoxError, ErrorCode
from box.replication.state import ApplierState


class ApplierEvent(Enum):
    """An event of the table above."""

    START = auto()
    GREETED = auto()
    LOGIN = auto()
    ACCEPTED = auto()
    JOIN = auto()
    FETCH = auto()
    SNAPSHOT_END = auto()
    REGISTER = auto()
    ROWS_END = auto()
    SUBSCRIBED = auto()
    CAUGHT_UP = auto()
    RESUBSCRIBE = auto()


class ApplierStep(Enum):
    """The next step of a connected applier."""

    WAIT = auto()
    """Do nothing until the wishes change."""
    AUTHENTICATE = auto()
    JOIN = auto()
    FETCH_SNAPSHOT = auto()
    REGISTER = auto()
    SUBSCRIBE = auto()


@dataclass(slots=True)
class Wishes:
    """The wishes of the instance to an applier, and whether the instance is anonymous or registered."""

    may_go_on: bool = False
    """True once the instance has compared all its peers."""
    may_subscribe: bool = False
    wants_everything: bool = False
    """True if the instance bootstraps from this peer."""
    is_anonymous: bool = False
    is_registered: bool = True


class Failure(NamedTuple):
    """The effect of an error: the next state, whether the applier tries again, and whether to log the error."""

    state: ApplierState
    tries_again: bool
    is_news: bool


TRANSITIONS: Final[dict[tuple[ApplierState, ApplierEvent], tuple[ApplierState, ...]]] = {
    (ApplierState.OFF, ApplierEvent.START): (ApplierState.CONNECT,),
    (ApplierState.LOADING, ApplierEvent.START): (ApplierState.CONNECT,),
    (ApplierState.DISCONNECTED, ApplierEvent.START): (ApplierState.CONNECT,),
    (ApplierState.STOPPED, ApplierEvent.START): (ApplierState.CONNECT,),
    (ApplierState.CONNECT, ApplierEvent.GREETED): (ApplierState.CONNECTED,),
    (ApplierState.CONNECTED, ApplierEvent.LOGIN): (ApplierState.AUTH,),
    (ApplierState.CONNECTED, ApplierEvent.ACCEPTED): (ApplierState.READY,),
    (ApplierState.AUTH, ApplierEvent.ACCEPTED): (ApplierState.READY,),
    (ApplierState.READY, ApplierEvent.JOIN): (ApplierState.INITIAL_JOIN,),
    (ApplierState.INITIAL_JOIN, ApplierEvent.SNAPSHOT_END): (ApplierState.FINAL_JOIN,),
    (ApplierState.FINAL_JOIN, ApplierEvent.ROWS_END): (ApplierState.JOINED, ApplierState.READY),
    (ApplierState.READY, ApplierEvent.FETCH): (ApplierState.FETCH_SNAPSHOT,),
    (ApplierState.FETCH_SNAPSHOT, ApplierEvent.SNAPSHOT_END): (ApplierState.FETCHED_SNAPSHOT, ApplierState.READY),
    (ApplierState.READY, ApplierEvent.REGISTER): (ApplierState.REGISTER,),
    (ApplierState.REGISTER, ApplierEvent.ROWS_END): (ApplierState.REGISTERED, ApplierState.READY),
    (ApplierState.READY, ApplierEvent.SUBSCRIBED): (ApplierState.SYNC,),
    (ApplierState.SYNC, ApplierEvent.CAUGHT_UP): (ApplierState.FOLLOW,),
    (ApplierState.SYNC, ApplierEvent.RESUBSCRIBE): (ApplierState.CONNECT,),
    (ApplierState.FOLLOW, ApplierEvent.RESUBSCRIBE): (ApplierState.CONNECT,),
    (ApplierState.READY, ApplierEvent.RESUBSCRIBE): (ApplierState.CONNECT,),
}

LOADING_ERRORS: Final = frozenset(
    {
        ErrorCode.ACCESS_DENIED,
        ErrorCode.CFG,
        ErrorCode.LOADING,
        ErrorCode.NO_SUCH_USER,
        ErrorCode.PASSWORD_MISMATCH,
        ErrorCode.SYNC_QUORUM_TIMEOUT,
        ErrorCode.SYNC_ROLLBACK,
        ErrorCode.TOO_EARLY_SUBSCRIBE,
        ErrorCode.XLOG_GAP,
    }
)
"""Errors of a peer that is not ready, or whose configuration has to change first."""

CONNECTION_ERRORS: Final = frozenset({ErrorCode.SYSTEM})
"""Errors of the connection or of the operating system."""

_WRITING: Final = frozenset({ApplierState.REGISTER, ApplierState.SYNC, ApplierState.FOLLOW})


class ApplierMachine:
    """The state machine of one applier.

    `on_state` is called with every state that is entered, even if it is the present one.
    """

    def __init__(self, on_state: Callable[[ApplierState], None] = lambda state: None) -> None:
        self.state = ApplierState.OFF
        self.error: BoxError | None = None
        """The error that ended the last attempt; None from the next greeting on."""
        self.is_connected = False
        """True if the peer has answered and no error has come since; also in OFF after a connection to itself."""
        self.has_received = False
        """True if a join has received data, after which it cannot start again."""
        self._on_state = on_state
        self._logged_code: int | None = None

    def __repr__(self) -> str:
        return f"<ApplierMachine {self.state.name}>"

    @property
    def is_writing(self) -> bool:
        """True if rows of the peer are being written to the journal."""
        return self.state in _WRITING

    def handle(self, event: ApplierEvent) -> None:
        """Change the state by the table.

        Raises:
            AssertionError: the table has no such event in the present state.
        """
        path = TRANSITIONS.get((self.state, event))
        if path is None:
            raise AssertionError(f"an applier in {self.state.name} cannot handle {event.name}")
        if event is ApplierEvent.GREETED:
            self.error, self.is_connected = None, True
        elif event is ApplierEvent.START:
            self.has_received = False
        elif event is ApplierEvent.SUBSCRIBED:
            self._logged_code = None
        for state in path:
            self._enter(state)

    def _enter(self, state: ApplierState) -> None:
        if state is ApplierState.READY:
            self.has_received = False
        self.state = state
        self._on_state(state)

    def next_step(self, wishes: Wishes, *, has_login: bool) -> ApplierStep:
        """Return the step to take in CONNECTED or READY.

        A guest has nothing to authenticate: for it this changes CONNECTED to READY.

        Raises:
            AssertionError: the applier is in another state.
        """
        if self.state is ApplierState.CONNECTED:
            if not wishes.may_go_on:
                return ApplierStep.WAIT
            if has_login:
                return ApplierStep.AUTHENTICATE
            self.handle(ApplierEvent.ACCEPTED)
        if self.state is not ApplierState.READY:
            raise AssertionError(f"an applier in {self.state.name} has no choice")
        if wishes.wants_everything:
            return ApplierStep.FETCH_SNAPSHOT if wishes.is_anonymous else ApplierStep.JOIN
        if not wishes.may_subscribe:
            return ApplierStep.WAIT
        is_member = wishes.is_registered or wishes.is_anonymous
        return ApplierStep.SUBSCRIBE if is_member else ApplierStep.REGISTER

    def failure_of(self, error: BoxError, *, is_self: bool) -> Failure:
        """Return the effect of an error. `is_self` is true if the peer is this instance itself, which is not logged."""
        if is_self and error.code == ErrorCode.CONNECTION_TO_SELF:
            return Failure(ApplierState.OFF, tries_again=False, is_news=False)
        if self.has_received:
            state = ApplierState.STOPPED
        elif error.code in LOADING_ERRORS:
            state = ApplierState.LOADING
        else:
            state = ApplierState.DISCONNECTED if error.code in CONNECTION_ERRORS else ApplierState.STOPPED
        return Failure(state, state is not ApplierState.STOPPED, error.code != self._logged_code)

    def fail(self, error: BoxError, failure: Failure) -> None:
        """End an attempt with an error and enter the state of its failure."""
        self.is_connected = failure.state is ApplierState.OFF
        if failure.state is not ApplierState.OFF:
            self.error = error
            self._logged_code = error.code
        self._enter(failure.state)

    def stop(self, error: BoxError | None = None) -> None:
        """Enter OFF after a cancellation, or STOPPED with an error that only a person can resolve."""
        self.is_connected = False
        if error is not None:
            self.error = error
        self._enter(ApplierState.OFF if error is None else ApplierState.STOPPED)
