"""SWIM: nodes find each other over UDP, notice who has died, and tell each other what has changed.

```
members.py     what is known of a member, and how new it is
encoding.py    packets as bytes                    decoding.py   bytes as packets; the layout stands there
detector.py    who owes an acknowledgement         gossip.py     what is still to be told
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
