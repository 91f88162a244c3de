"""Salt: four bytes appended to a tuple that crosses between Python and Lua as a string.

LuaJIT interns every string. The older version hashes only the length and four words: the first, the last and two in
between. Tuples that differ elsewhere share a hash, and each new one is compared with all that are not collected yet: a
loop over `{id, 'name of ' .. id, id + 0.5}` became five times slower. A last word that changes from string to string
keeps the hashes apart. The receiver cuts it off. Lua's half is in `internal/msgpack_encode.lua` and
`internal/tuple.lua`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Final

SALT_SIZE: Final = 4
"""The last word that LuaJIT hashes of a string has four bytes."""
_COUNT: Final = 4096
"""The number of salts before the first one comes again."""
_SALTS: Final = tuple(number.to_bytes(SALT_SIZE, "little") for number in range(_COUNT))


def salter() -> Callable[[], bytes]:
    """Return a function that returns a different salt each time."""
    return cycle(_SALTS).__next__
