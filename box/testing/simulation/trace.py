"""The trace of a run: every event with its time and place. Equal seeds give equal traces."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple


class Event(NamedTuple):
    """Something that happened in a process. `time` is in simulated seconds; `kind` is one word."""

    time: float
    process: str
    kind: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.time:12.6f}  {self.process:8}  {self.kind:10}  {self.text}".rstrip()


class Message(NamedTuple):
    """Bytes sent from one process to another. `arrived` is None if they were lost."""

    sent: float
    source: str
    arrived: float | None
    target: str
    text: str


class Trace:
    """Events and messages in the order in which they became known. `keeps_messages` costs memory in long runs."""

    def __init__(self, *, keeps_messages: bool = False) -> None:
        self.events: list[Event] = []
        self.messages: list[Message] = []
        self.keeps_messages = keeps_messages
        self._hash = sha256()
        self._final = ""
        """The digest of a trace that was made in another process."""

    def add(self, time: float, process: str, kind: str, text: str = "") -> None:
        """Add an event."""
        event = Event(time, process, kind, text)
        self.events.append(event)
        self._hash.update(repr(event).encode())

    def add_message(self, message: Message) -> None:
        """Add a message. It counts in the digest even if messages are not kept."""
        if self.keeps_messages:
            self.messages.append(message)
        self._hash.update(repr(message).encode())

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify the run."""
        return self._final or self._hash.hexdigest()[:16]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process: the digest in place of the hash, which cannot be pickled."""
        return self.__dict__ | {"_hash": None, "_final": self.digest}
