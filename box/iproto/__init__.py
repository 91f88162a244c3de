"""The server of the binary protocol: `server` listens, `connection` reads and writes, `dispatch` runs requests.

`learned_bodies` is the fast path for usual requests, `pace` decides when to read, `interface` defines what they need
of a node. Formats are in `box.wire`, addresses and sockets in `box.net`.
"""
