"""`iconv`: converts texts between encodings, for Lua."""

from __future__ import annotations

import codecs

from lua.bindings.binding import Binding, exported, text


class IconvBinding(Binding):
    """Python half of lua/modules/iconv.lua."""

    @exported("iconv_known")
    def is_encoding(self, name: bytes) -> bool | None:
        """True if an encoding with this name exists, otherwise None."""
        return True if _codec_name(name) is not None else None

    @exported("iconv_convert")
    def convert(self, target: bytes, source: bytes, value: bytes) -> bytes | int:
        """Convert `value` to another encoding. The result 1 means an invalid sequence, 2 an incomplete one."""
        try:
            decoded = codecs.decode(value, _codec_name(source) or "utf-8")
            return codecs.encode(decoded, _codec_name(target) or "utf-8")
        except UnicodeDecodeError as error:
            return 2 if error.end == len(value) and "unexpected end" in error.reason else 1
        except UnicodeEncodeError:
            return 1


def _codec_name(name: bytes) -> str | None:
    """Return the Python codec for a name of iconv(3). Only text encodings count, not base64 and the like."""
    plain = text(name).split("//", 1)[0]
    # For these names Python would write a byte order mark, which must not be in the result.
    plain = {"UTF-16": "UTF-16LE", "UTF-32": "UTF-32LE", "UCS-2": "UTF-16LE", "UCS-4": "UTF-32BE"}.get(
        plain.upper(), plain
    )
    try:
        found = codecs.lookup(plain)
    except (LookupError, ValueError):
        return None
    return found.name if found._is_text_encoding else None
