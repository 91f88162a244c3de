"""`uri`: parses and formats addresses, for Lua."""

from __future__ import annotations

from box.data import codec
from box.net import uri
from lua.bindings.binding import Binding, Outcome, exported, guarded, text


class UriBinding(Binding):
    """Python half of lua/modules/uri.lua."""

    @exported("uri_parse")
    def parse(self, address: bytes) -> bytes | None:
        """Parse an address to a map of its parts; None for a text that is not an address."""
        parsed = uri.parse(text(address))
        if parsed is None:
            return None
        parts = {name: part for name, part in parsed._asdict().items() if part is not None}
        if parsed.unix is not None:
            parts["unix"] = parsed.unix
        return codec.pack(parts)

    @guarded("uri_format")
    def format(self, packed: bytes, write_password: bool) -> Outcome:
        """Format the address that has the parts of a map."""
        names = uri.Uri._fields
        parts = {name: str(part) for name, part in codec.unpack(packed).items() if name in names and part is not None}
        return uri.Uri(**parts).format(write_password=write_password).encode("utf-8", "surrogateescape")
