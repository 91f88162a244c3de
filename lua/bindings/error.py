"""`box.error`: the table of codes for Lua, the fiber's last error, error injections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.data import codec
from box.error_codes import ErrorCode
from lua.bindings.binding import Binding, Outcome, exported, guarded, text
from lua.boundary import decode_error, encode_error

if TYPE_CHECKING:
    from box.errors import BoxError


class ErrorBinding(Binding):
    """Codes, the last error and injections."""

    @exported("error_codes")
    def codes(self) -> bytes:
        """Return [[name, code, template], ...], ordered by code."""
        return codec.pack([[code.name, int(code), code.template] for code in sorted(ErrorCode)])

    @exported("error_last")
    def last(self) -> bytes | None:
        """Return the fiber's last error."""
        error: BoxError | None = self.ctx.error
        return None if error is None else encode_error(error)

    @exported("error_set")
    def set_last(self, raw: bytes | None = None) -> None:
        """Set or clear the fiber's last error."""
        self.ctx.error = None if raw is None else decode_error(raw)

    @guarded("errinj_get")
    def get_injection(self, name: bytes) -> bytes:
        """Return the packed value of an injection, or the text that there is none."""
        return codec.pack(self.node.errinj.get(text(name)))

    @guarded("errinj_set")
    def set_injection(self, name: bytes, value: bytes) -> Outcome:
        """Set an injection. Returns 'ok', or the text that there is none."""
        return self.node.errinj.set(text(name), codec.unpack(value)).encode("utf-8", "surrogateescape")

    @exported("errinj_info")
    def injections(self) -> bytes:
        """Return all injections as [[name, state], ...]."""
        return codec.pack([[name, entry["state"]] for name, entry in self.node.errinj.info().items()])
