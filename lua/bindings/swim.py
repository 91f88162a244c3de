"""`swim`: members of SWIM clusters for Lua, by number.

Lua refers to a member by a number, too, for as long as it holds the member: `swim_release` ends that. Members that are
dropped can still be asked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from box.errors import BoxError, ErrorCode
from box.rate_limit import RateLimit
from lua.bindings.binding import Binding, Outcome, exported, guarded, text
from lua.boundary import decode_error

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.swim import Address, Member, Protocol
    from lua.bindings.swim_socket import SwimSocket
    from lua.runtime import Runtime

_FACTS: Final[dict[bytes, Callable[[Member], Outcome]]] = {
    b"status": lambda member: int(member.status),
    b"uri": lambda member: str(member.address).encode(),
    b"uuid": lambda member: member.uuid,
    b"incarnation": lambda member: struct.pack("=QQ", *member.incarnation),
    b"payload": lambda member: member.payload,
    b"is_payload_current": lambda member: int(member.is_payload_current),
    b"is_dropped": lambda member: int(member.is_dropped),
}
"""The values that Lua can read of a member, by name."""
_NO_INTERFACES: Final = "broadcast has failed - no available interfaces"


@dataclass(eq=False, slots=True)
class _Instance:
    """A member that Lua has made. `token` is that of the fiber that waits for an event, 0 if none does."""

    protocol: Protocol
    socket: SwimSocket
    token: int = 0
    is_closed: bool = False


@dataclass(eq=False, slots=True)
class _Held:
    """A member of a cluster that Lua holds `count` times."""

    member: Member
    count: int = 1


class SwimBinding(Binding):
    """Python half of lua/modules/swim.lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._instances: dict[int, _Instance] = {}
        self._held: dict[int, _Held] = {}
        self._numbers: dict[Member, int] = {}
        self._last_number = 0
        self._problems = RateLimit()
        node.on_close.append(self.close_all)

    def close_all(self) -> None:
        """Close all sockets, because the node stops."""
        for instance in self._instances.values():
            instance.protocol.close()
            instance.socket.abort()
        self._instances.clear()

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _instance(self, number: float) -> _Instance:
        instance = self._instances.get(int(number))
        if instance is None:
            raise BoxError(ErrorCode.PROC_LUA, "the swim instance is deleted", type="SwimError")
        return instance

    def _report(self, problem: str) -> None:
        """Log a problem. Nodes of the network can cause any number of them, so the rate is limited."""
        suppressed = self._problems.take(self.runtime.loop.time())
        if suppressed is not None:
            if suppressed:
                self.node.log.warn(f"{suppressed} messages of SWIM were suppressed")
            self.node.log.error(problem)

    # Instances

    @exported("swim_new")
    def new(self, generation: bytes) -> int:
        """Make an instance that is not part of a cluster yet; `generation` is 8 bytes. Returns its number."""
        from box.swim import Protocol  # few programs need it
        from lua.bindings.swim_socket import SwimSocket

        loop, errinj = self.runtime.loop, self.node.errinj
        socket = SwimSocket(loop, self.runtime.machine.sockets, self._report)
        number = self._next_number()
        protocol = Protocol(
            socket,
            loop,
            self.node.random,
            struct.unpack("=Q", generation)[0],
            on_pending=lambda: self._wake(number),
            on_problem=self._report,
            tells_all=lambda: not errinj.values["ERRINJ_SWIM_FD_ONLY"],
        )
        socket.on_packet = protocol.receive
        self._instances[number] = _Instance(protocol, socket)
        return number

    @exported("swim_is_configured")
    def is_configured(self, number: float) -> bool | None:
        """Return whether an instance takes part in a cluster."""
        return self._instance(number).protocol.own is not None or None

    @guarded("swim_cfg")
    def configure(
        self,
        number: float,
        uri: bytes | None,
        heartbeat_rate: float,
        ack_timeout: float,
        collects_dead: bool | None,
        uuid: bytes | None,
    ) -> Outcome:
        """Configure an instance. Returns the descriptor of its socket.

        Raises:
            BoxError: the options are wrong or the address cannot be bound.
        """
        instance = self._instance(number)
        instance.protocol.configure(
            self._address(uri, "swim.cfg:"),
            uuid,
            heartbeat_rate=heartbeat_rate,
            ack_timeout=ack_timeout,
            collects_dead=collects_dead,
        )
        return instance.socket.descriptor

    @staticmethod
    def _address(uri: bytes | None, function: str) -> Address | None:
        from box.swim.addresses import parse_address

        return None if uri is None else parse_address(text(uri), function)

    @guarded("swim_set_codec")
    def set_codec(self, number: float, algorithm: float, mode: float, key: bytes, size: float) -> Outcome:
        """Encrypt packets from now on; algorithm 0 ends that. `size` is the size of the key in bytes; if it is wrong,
        `key` is empty.

        Raises:
            BoxError: the key has a wrong size, or the system's library lacks the algorithm.
        """
        from box.swim import Cipher

        random_bytes = self.runtime.machine.identity.random_bytes
        socket = self._instance(number).socket
        socket.cipher = Cipher(int(algorithm), int(mode), key, int(size), random_bytes) if algorithm else None
        return True

    @exported("swim_close")
    def close(self, number: float) -> None:
        """End an instance at once. Its fiber for events ends, too."""
        self._end(int(number), lambda protocol: protocol.close())

    @exported("swim_quit")
    def quit(self, number: float) -> None:
        """End an instance, and tell the cluster."""
        self._end(int(number), lambda protocol: protocol.quit())

    @exported("swim_collect")
    def collect(self, number: float) -> None:
        """End an instance that nothing refers to any more, soon: the collector may run at any moment."""
        self.runtime.loop.call_soon(self.close, number)

    def _end(self, number: int, end: Callable[[Protocol], None]) -> None:
        instance = self._instances.pop(number, None)
        if instance is not None:
            end(instance.protocol)
            token, instance.token = instance.token, 0
            if token and not self.runtime.closed:
                self.runtime.wake(token, None)

    # The cluster

    @exported("swim_size")
    def size(self, number: float) -> int:
        """Return how many members are known."""
        return len(self._instance(number).protocol.members)

    @guarded("swim_probe_member")
    def probe(self, number: float, uri: bytes | None) -> Outcome:
        """Ping an address.

        Raises:
            BoxError: `uri` is missing or is not an address.
        """
        address = self._address(uri, "swim.probe_member:")
        if address is None:
            raise BoxError(ErrorCode.PROC_LUA, "swim.probe_member: URI is mandatory", type="SwimError")
        self._instance(number).protocol.probe([address])
        return True

    @guarded("swim_broadcast")
    def broadcast(self, number: float, port: float) -> Outcome:
        """Ping a port at the broadcast addresses of all interfaces. A negative port stands for the instance's own port.

        Raises:
            BoxError: no interface is up and has an IPv4 address.
        """
        from box.swim.addresses import parse_address

        hosts = self.runtime.machine.sockets.broadcast_hosts()
        if not hosts:
            raise BoxError(ErrorCode.PROC_LUA, _NO_INTERFACES, type="SwimError")
        protocol = self._instance(number).protocol
        assert protocol.own is not None  # Lua offers this to configured instances alone
        target = protocol.own.address.port if port < 0 else int(port) & 0xFFFF
        protocol.probe([parse_address(host + ":0", "")._replace(port=target) for host in hosts])
        return True

    @guarded("swim_add_member")
    def add_member(self, number: float, uri: bytes | None, uuid: bytes | None) -> Outcome:
        """Add a member by hand.

        Raises:
            BoxError: something is missing or wrong, or the member is known already.
        """
        protocol = self._instance(number).protocol
        is_complete = uri is not None and uuid is not None
        protocol.add_member(self._address(uri, "swim.add_member:") if is_complete else None, uuid)
        return True

    @guarded("swim_remove_member")
    def remove_member(self, number: float, uuid: bytes | None) -> Outcome:
        """Forget a member.

        Raises:
            BoxError: the uuid is missing or the instance's own.
        """
        self._instance(number).protocol.remove_member(uuid)
        return True

    @guarded("swim_set_payload")
    def set_payload(self, number: float, payload: bytes, size: float) -> Outcome:
        """Set the payload. `size` is its size in bytes; if it is wrong, the payload is empty.

        Raises:
            IllegalParams: the payload is too long.
        """
        self._instance(number).protocol.set_payload(payload, int(size))
        return True

    # Members

    def _number_of(self, member: Member) -> int:
        """Return the number of a member, which Lua holds once more."""
        number = self._numbers.get(member)
        if number is not None:
            self._held[number].count += 1
            return number
        number = self._numbers[member] = self._next_number()
        self._held[number] = _Held(member)
        return number

    @exported("swim_hold")
    def hold(self, number: float) -> None:
        """Hold a member once more."""
        self._held[int(number)].count += 1

    @exported("swim_release")
    def release(self, number: float) -> None:
        """Forget a member that Lua held."""
        held = self._held.get(int(number))
        if held is not None:
            held.count -= 1
            if held.count == 0:
                del self._held[int(number)], self._numbers[held.member]

    @exported("swim_self")
    def own(self, number: float) -> int:
        """Return the number of the member that the instance itself is."""
        own = self._instance(number).protocol.own
        assert own is not None  # Lua offers this to configured instances alone
        return self._number_of(own)

    @exported("swim_member")
    def member(self, number: float, uuid: bytes) -> int | None:
        """Return the number of a member, None if it is not known."""
        member = self._instance(number).protocol.members.get(uuid)
        return None if member is None else self._number_of(member)

    @exported("swim_members")
    def members(self, number: float) -> bytes:
        """Return the uuids of all members as one text."""
        return b"".join(member.uuid for member in self._instance(number).protocol.members)

    @exported("swim_fact")
    def fact(self, number: float, name: bytes) -> Outcome:
        """Return the value `name` of a member (see `_FACTS`), or None if Lua holds no such member."""
        held = self._held.get(int(number))
        return None if held is None else _FACTS[name](held.member)

    # Events

    @exported("swim_listen")
    def listen(self, number: float, count: float) -> None:
        """Note how many triggers an instance has now."""
        instance = self._instances.get(int(number))
        if instance is not None:
            instance.protocol.has_listeners = count > 0

    @exported("swim_next_event")
    def next_event(self, number: float) -> Outcome:
        """Wait for an event. Returns the member's number and the kind of event, None if the instance was deleted, False
        if the caller has to ask again.
        """
        instance = self._instances.get(int(number))
        if instance is None:
            return None
        found = instance.protocol.next_event()
        if found is not None:
            return self._number_of(found[0]), int(found[1])
        instance.token = self.runtime.new_token(lambda: self._wake(int(number)))
        return instance.token

    @exported("swim_trigger_failed")
    def trigger_failed(self, error: bytes) -> None:
        """Log the error of a trigger."""
        self.node.log.problem(decode_error(error))

    def _wake(self, number: int) -> None:
        """Resume the fiber that waits for an event, because an event has come or the fiber was cancelled."""
        instance = self._instances.get(number)
        if instance is None or not instance.token:
            return
        token, instance.token = instance.token, 0
        self.runtime.loop.call_soon(self._deliver, number, token)

    def _deliver(self, number: int, token: int) -> None:
        instance = self._instances.get(number)
        found = None if instance is None else instance.protocol.next_event()
        if found is None:
            self.runtime.wake(token, False)
        else:
            self.runtime.wake(token, self._number_of(found[0]), int(found[1]))
