"""SWIM: nodes find each other over UDP, detect failed members, and tell each other what has changed.

```
members.py     the facts about each member, and how new they are
encoding.py    packets to bytes                    decoding.py   bytes to packets, and their layout
detector.py    members that owe an acknowledgement gossip.py     news that other members still have to get
protocol.py    the member itself: a state machine over a transport, a clock and a random source
addresses.py   addresses as users write them       cipher.py     encryption of packets
```

The protocol is that of Tarantool 2.8.1, whose `swim` module can be a member of the same cluster. Nothing here opens a
socket: `lua/bindings/swim.py` does.
"""

from box.swim.cipher import Cipher
from box.swim.members import Address, Incarnation, Member, MemberEvent, Status
from box.swim.protocol import Protocol

__all__ = ["Address", "Cipher", "Incarnation", "Member", "MemberEvent", "Protocol", "Status"]
