"""The Python half of `require('yaml')`. The parser is imported on first use, because most programs never need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.runtime import Runtime


class YamlBinding:
    """Python half of lua/modules/yaml.lua."""

    def __init__(self, runtime: Runtime, _node: Instance | None = None) -> None:
        runtime.bind("yaml_parse", self._parse)
        runtime.bind("yaml_tag", self._tag)

    @staticmethod
    def _parse(text: bytes) -> bytes | tuple[None, bytes]:
        from lua.bindings.yaml_parser import parse

        try:
            return parse(text)
        except ValueError as error:
            return None, str(error).encode(errors="surrogateescape")

    @staticmethod
    def _tag(text: bytes) -> tuple[bytes | None, bytes | None]:
        from lua.bindings.yaml_parser import parse_tag

        try:
            tag = parse_tag(text)
        except ValueError as error:
            return None, str(error).encode(errors="surrogateescape")
        return (tag[0].encode(), tag[1].encode()) if tag else (None, None)
