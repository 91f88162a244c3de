"""The parser of `require('yaml')`. The emitter is in Lua (lua/modules/internal/yaml_emitter.lua).

A document becomes a flat list of opcodes and their arguments, from which lua/modules/yaml.lua builds tables. The form
is a list because MessagePack has neither aliases nor keys that are tables:

    SCALAR anchor value | SEQUENCE anchor ... END | MAPPING anchor (key value)* END | ALIAS anchor | DOCUMENT

An absent anchor is the empty string; DOCUMENT ends a document. Scalars are resolved as in Tarantool: `yes` and `no` are
booleans, an empty plain scalar is the empty string, integers beyond 64 bits are clamped.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import string
from collections.abc import Callable
from typing import Any

import msgpack
import yaml

SCALAR, SEQUENCE, MAPPING, ALIAS, END, DOCUMENT = range(1, 7)

_SCALAR_EVENT, _SEQUENCE_EVENT, _MAPPING_EVENT = yaml.ScalarEvent, yaml.SequenceStartEvent, yaml.MappingStartEvent
_SEQUENCE_END, _MAPPING_END = yaml.SequenceEndEvent, yaml.MappingEndEvent
_LOADER: Any = getattr(yaml, "CLoader", yaml.Loader)
_TAG_PREFIX = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"\s*[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)
_HEX = re.compile(r"\s*[+-]?0x[0-9a-f]*\.?[0-9a-f]*(p[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WORDS: dict[str, Any] = {"~": None, "null": None, "true": True, "yes": True, "false": False, "no": False}
_BEGINS_NO_NUMBER = frozenset(string.ascii_letters + "_/<>") - frozenset("iInN")
"""Most words are told from numbers by their first character; `inf` and `nan` are numbers."""
_MIN_INT64, _MAX_UINT64 = -(2**63), 2**64 - 1
_MAX_DEPTH = 1000
"""The most levels of sequences and mappings, the limit of the emitter too.

The scanner of libyaml takes time per token that grows with the depth, so that 100,000 brackets would take minutes.
Later versions of libyaml have the same limit.
"""
_OTHER_VERSION = "found incompatible YAML document"
_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"


def parse(text: bytes) -> bytes:
    """Parse a text and return the packed list of all its documents. Raises ValueError with Tarantool's text for bad
    YAML.
    """
    return _pack(_tokens(text))


def parse_tag(text: bytes) -> tuple[str, str] | None:
    """Return (handle, prefix) of the first document's tag directive, or None without one. Raises ValueError."""
    events = yaml.parse(text, Loader=_LOADER)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                tags = list((event.tags or {}).items())
                if len(tags) > 1:
                    raise ValueError("can not decode multiple tags")
                return tags[0] if tags else None
    except yaml.YAMLError as error:
        raise ValueError(_message(error, 0)) from error
    return None


def _pack(tokens: list[Any]) -> bytes:
    packed: bytes = msgpack.packb(tokens, unicode_errors="surrogateescape")
    return packed


def _tokens(text: bytes) -> list[Any]:
    tokens: list[Any] = []
    anchors: set[str | None] = set()
    documents = 0
    depth = 0
    begins = False  # true if the next event is the first one of a document
    is_open = False
    loader: Any = None
    try:
        loader = _LOADER(text)
        next_event = loader.get_event
        while (event := next_event()) is not None:
            kind = type(event)
            if kind is _SCALAR_EVENT:
                anchors.add(event.anchor)
                tokens += (SCALAR, event.anchor or "", _scalar(event))
            elif kind is _MAPPING_EVENT or kind is _SEQUENCE_EVENT:
                depth += 1
                anchors.add(event.anchor)
                if depth > _MAX_DEPTH:
                    raise _too_deep(documents)
                tokens += (MAPPING if kind is _MAPPING_EVENT else SEQUENCE, event.anchor or "")
            elif kind is _MAPPING_END or kind is _SEQUENCE_END:
                depth -= 1
                tokens.append(END)
            elif kind is yaml.AliasEvent:
                tokens += (ALIAS, event.anchor)
                if event.anchor not in anchors:
                    return tokens  # Lua raises the error for it; mistakes after it are none of the parser's then
            elif kind is yaml.DocumentStartEvent:
                if event.version not in (None, (1, 1)):
                    raise yaml.YAMLError(_OTHER_VERSION)
                documents += 1
                begins = is_open = True
                continue
            elif kind is yaml.DocumentEndEvent:
                is_open = False
                tokens.append(DOCUMENT)
            begins = False
    except yaml.YAMLError as error:
        if getattr(error, "problem", None) == _TOO_DEEP_FOR_LIBYAML:
            raise _too_deep(documents if is_open else documents + 1) from error
        # Tarantool reports the missing content of the document before the reason why it is missing.
        raise ValueError("unexpected END event" if begins else _message(error, documents)) from error
    finally:
        if loader is not None:
            loader.dispose()
    return tokens


def _too_deep(document: int) -> ValueError:
    return ValueError(f"Too high nest level at document: {document}\n")


def _scalar(event: Any) -> Any:
    text = event.value
    if event.tag and event.tag.startswith(_TAG_PREFIX):
        kind = event.tag.removeprefix(_TAG_PREFIX)
        if kind in _TAGGED:
            return _TAGGED[kind](text)
    return text if event.style else resolve(text)


def resolve(text: str) -> Any:
    """Return the value of a plain scalar."""
    if not text:
        return ""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _BEGINS_NO_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return max(_MIN_INT64, min(int(text), _MAX_UINT64))
    if _FLOAT.fullmatch(text):
        number = float(text)
        # As in LuaJIT every NaN has the sign bit, which is shown.
        return math.copysign(number, -1) if math.isnan(number) else number
    if _HEX.fullmatch(text):
        try:
            return float.fromhex(text)
        except (ValueError, OverflowError):
            return text
    return text


def _leading_integer(text: str) -> int:
    match = _INTEGER.match(text)
    return int(match[0]) if match else 0


def _leading_float(text: str) -> float:
    match = _FLOAT.match(text)
    return float(match[0]) if match else 0.0


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()))
    except (binascii.Error, ValueError):
        return b""


def _binary_text(text: str) -> str:
    return _binary(text).decode("utf-8", "surrogateescape")


_TAGGED: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": _leading_integer,
    "float": _leading_float,
    "bool": lambda text: text in ("true", "yes"),
    "binary": _binary_text,
}


def _message(error: yaml.YAMLError, documents: int) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"{error.reason} at document: {documents}\n"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"{error} at document: {documents}\n"
    # libyaml has corrected its text since.
    problem = (error.problem or "A problem").replace("character that violates ind", "character that violate ind")
    text = f"{problem} at document: {documents}"
    mark = error.problem_mark
    if mark is not None and (mark.line or mark.column):
        text += f", line: {mark.line + 1}, column: {mark.column + 1}"
    text += "\n"
    if error.context:
        place = error.context_mark
        line, column = (place.line + 1, place.column + 1) if place else (1, 1)
        text += f"{error.context} at line: {line}, column: {column}\n"
    return text
