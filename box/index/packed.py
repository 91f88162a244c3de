r"""Keys of several parts packed to one bytes object, which compares in the order of the parts.

```
unsigned             8 bytes, big-endian
string, varbinary    the bytes, each 00 as 00 ff, then 00 00      so that `a` is before `a\0`, and that before `ab`
```

A key of a text and a number takes 64 bytes, a tuple of two objects takes 150; two keys are compared in one step. Only
parts of these types are packed, if they have no collation and are never nil.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from box.data.collation import is_binary
from box.data.keydef import TOP, KeyDef, PartDef
from box.data.types import FieldType, compiled_source

# A zero in a text becomes 00 ff, which is greater than the end, so that a text sorts before every longer one.
_END: Final = b"\0\0"
_NUMBER: Final = struct.Struct(">Q").pack
_NUL: Final = b"\0"
_ESCAPED: Final = b"\0\xff"


def is_packable(definition: KeyDef) -> bool:
    """Return whether keys of this definition can be packed and become smaller."""
    return len(definition) > 1 and are_packable(definition)


def are_packable(definition: KeyDef) -> bool:
    """Return whether keys of this definition can be packed, also those of one part."""
    return all(map(_is_packable, definition.parts))


def _is_packable(part: PartDef) -> bool:
    if part.is_nullable:
        return False
    if part.type is FieldType.STRING:
        return is_binary(part.collation_id)
    return part.type in (FieldType.UNSIGNED, FieldType.VARBINARY)


def pack_parts(parts: Iterable[Any]) -> bytes:
    """Pack part keys, as `KeyDef.parse_parts` returns them: a whole key, or the beginning of one."""
    return b"".join([part.replace(_NUL, _ESCAPED) + _END if type(part) is bytes else _NUMBER(part) for part in parts])


def after_all(prefix: bytes) -> Any:
    """Return the least key that is greater than every key that begins with `prefix`."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else TOP


def packer(definition: KeyDef) -> Callable[[list[Any]], bytes]:
    """Return a function that makes a packed key of the decoded fields of a tuple."""
    if any(part.path for part in definition.parts):
        pack, extract = parts_packer(definition), _parts_extractor(definition)
        return lambda fields: pack(extract(fields))
    return _fields_packer(definition)


def _parts_extractor(definition: KeyDef) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return a function that extracts the parts of a key as a tuple, also a single one."""
    extract: Callable[[list[Any]], Any] = definition.extract
    return extract if len(definition) > 1 else lambda fields: (extract(fields),)


def packer_of_all(definition: KeyDef) -> Callable[[list[Any]], list[bytes]]:
    """Return a function that makes the packed keys of a tuple for a multikey definition, without repetition."""
    pack, extract_all = parts_packer(definition), definition.extract_all
    return lambda fields: [pack(key) for key in extract_all(fields)]


def parts_packer(definition: KeyDef) -> Callable[[Sequence[Any]], bytes]:
    """Return a function that packs the parts of a whole key."""
    if any(part.type is not FieldType.UNSIGNED for part in definition.parts):
        return pack_parts
    pack = struct.Struct(f">{len(definition)}Q").pack
    return lambda parts: pack(*parts)


def _fields_packer(definition: KeyDef) -> Callable[[list[Any]], bytes]:
    # Consecutive numbers, and the end mark of a text before them, are packed with one call of `struct`.
    names: dict[str, Any] = {"NUL": _NUL, "ESCAPED": _ESCAPED, "pack_parts": pack_parts}
    names["extract"] = _parts_extractor(definition)
    terms: list[str] = []
    numbers: list[str] = []
    form = ""

    def close() -> None:
        nonlocal form
        if numbers:
            names[f"p{len(terms)}"] = struct.Struct(f">{form}").pack
            terms.append(f"p{len(terms)}({', '.join(numbers)})")
        elif form:
            terms.append("NUL * 2")
        form = ""
        numbers.clear()

    for part in definition.parts:
        if part.type is FieldType.UNSIGNED:
            form += "Q"
            numbers.append(f"f[{part.fieldno}]")
        else:
            close()
            encoded = ".encode()" if part.type is FieldType.STRING else ""
            terms.append(f"f[{part.fieldno}]{encoded}.replace(NUL, ESCAPED)")
            form = "2x"
    close()
    source = f"""
def pack(f):
    try:
        return {" + ".join(terms)}
    except UnicodeEncodeError:
        return pack_parts(extract(f))
"""
    exec(compiled_source(source), names)
    # Remove the function from its own namespace `names`, which would otherwise form a reference cycle.
    compiled: Callable[[list[Any]], bytes] = names.pop("pack")
    return compiled
