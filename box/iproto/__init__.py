"""The binary protocol: rows and packets, the server, the client.

Pure formats: `constants`, `row`, `codec`, `request`, `messages`, `mp_error`, `packets`, `auth`, `uri`.
Server: `server` listens, `connection` reads and writes, `dispatch` runs requests, `plans` is the shortcut of the
usual ones; `interface` says what they need of a node. Client: `client`. Shared with other fronts: `sessions`, `stats`.
"""
