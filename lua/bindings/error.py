"""`box.error`: the table of codes for Lua, the fiber's last error, error injections."""

from __future__ import annotations

from box.data import codec
from box.data.error_body import decode_error_stack
from box.error_codes import ErrorCode
from box.errors import BoxError
from box.schema.session_settings import ERROR_MARSHALING, SessionSettings
from lua.bindings.binding import Binding, Outcome, exported, guarded, text
from lua.boundary import decode_error, encode_error

_SETTINGS = SessionSettings()


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

    @exported("error_travels")
    def travels(self, is_wanted: bool = False) -> bool:
        """Return whether this session encodes errors among values as MessagePack extensions, instead of as texts.

        `is_wanted` is the option `encode_error_as_ext` of msgpack. It has no effect for clients of the binary protocol,
        who get the form that they have announced.
        """
        session = self.ctx.session
        return bool(_SETTINGS.value(session, ERROR_MARSHALING)) or (is_wanted and session.type != "binary")

    @exported("error_pack")
    def pack(self, raw: bytes) -> bytes:
        """Return the MessagePack extension of an error from Lua."""
        return codec.pack(decode_error(raw))

    @exported("error_unpack")
    def unpack(self, body: bytes) -> bytes | None:
        """Return the error of an extension's body for Lua, or None if it is malformed."""
        try:
            return encode_error(decode_error_stack(body))
        except BoxError:
            return None

    @guarded("errinj_get")
    def get_injection(self, name: bytes) -> bytes:
        """Return the packed value of an injection, or a packed error text if there is no such injection."""
        return codec.pack(self.node.errinj.get(text(name)))

    @guarded("errinj_set")
    def set_injection(self, name: bytes, value: bytes) -> Outcome:
        """Set an injection. Returns 'ok', or an error text if there is no such injection."""
        return self.node.errinj.set(text(name), codec.unpack(value)).encode("utf-8", "surrogateescape")

    @exported("errinj_info")
    def injections(self) -> bytes:
        """Return all injections as [[name, state], ...]."""
        return codec.pack([[name, entry["state"]] for name, entry in self.node.errinj.info().items()])
