"""Small modules over texts and bytes: `uri`, `uuid`, `utf8`, `iconv`."""

from __future__ import annotations

import codecs
import unicodedata
from dataclasses import asdict

from box.data import codec
from box.data.collation import sort_key
from box.net import uri
from lua.bindings.binding import Binding, Outcome, exported, guarded, text

_UNICODE, _UNICODE_CI = 1, 2
"""Ids of the collations that `utf8.cmp` and `utf8.casecmp` follow."""


class TextBinding(Binding):
    """Python half of lua/modules/uri.lua, uuid.lua, utf8.lua and iconv.lua."""

    @exported("uri_parse")
    def uri_parse(self, address: bytes) -> bytes | None:
        """A map of the parts that are there; None for what is no address."""
        parsed = uri.parse(text(address))
        if parsed is None:
            return None
        parts = {name: part for name, part in asdict(parsed).items() if part is not None}
        if parsed.unix is not None:
            parts["unix"] = parsed.unix
        return codec.pack(parts)

    @guarded("uri_format")
    def uri_format(self, packed: bytes, write_password: bool) -> Outcome:
        """The address with the parts of a map."""
        names = uri.Uri.__dataclass_fields__
        parts = {name: str(part) for name, part in codec.unpack(packed).items() if name in names and part is not None}
        return uri.Uri(**parts).format(write_password=write_password).encode("utf-8", "surrogateescape")

    @exported("uuid_random")
    def uuid_random(self) -> bytes:
        """16 bytes of a new version 4 UUID."""
        return self.node.random_uuid().bytes

    @exported("utf8_upper")
    def upper(self, value: bytes) -> bytes:
        """In capital letters."""
        return text(value).upper().encode("utf-8", "surrogateescape")

    @exported("utf8_lower")
    def lower(self, value: bytes) -> bytes:
        """In small letters."""
        return text(value).lower().encode("utf-8", "surrogateescape")

    @exported("utf8_category")
    def category(self, code: float) -> bytes:
        """The general category of a code point, two letters."""
        return unicodedata.category(chr(int(code))).encode()

    @exported("utf8_key")
    def collation_key(self, value: bytes, ignore_case: bool) -> bytes:
        """Bytes that compare as the texts do."""
        return sort_key(_UNICODE_CI if ignore_case else _UNICODE, text(value))

    @exported("iconv_known")
    def is_encoding(self, name: bytes) -> bool | None:
        """Whether an encoding of this name exists."""
        return True if _codec_name(name) is not None else None

    @exported("iconv_convert")
    def convert(self, target: bytes, source: bytes, value: bytes) -> bytes | int:
        """`value` in another encoding. 1: a sequence that is not valid, 2: one that is not complete."""
        try:
            decoded = codecs.decode(value, _codec_name(source) or "utf-8")
            return codecs.encode(decoded, _codec_name(target) or "utf-8")
        except UnicodeDecodeError as error:
            return 2 if error.end == len(value) and "unexpected end" in error.reason else 1
        except UnicodeEncodeError:
            return 1


def _codec_name(name: bytes) -> str | None:
    """The codec behind a name as iconv(3) has it. A text encoding is asked for: not base64 and the like."""
    plain = text(name).split("//", 1)[0]
    # Without a byte order in its name, an encoding of wide units has no mark in front: as little endian.
    plain = {"UTF-16": "UTF-16LE", "UTF-32": "UTF-32LE", "UCS-2": "UTF-16LE", "UCS-4": "UTF-32BE"}.get(
        plain.upper(), plain
    )
    try:
        found = codecs.lookup(plain)
    except LookupError:
        return None
    return found.name if found._is_text_encoding else None
