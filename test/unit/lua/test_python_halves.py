"""Python halves of Lua modules, which are bound when Lua uses one of their functions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from lua.bindings.binding import Binding
from lua.bindings.box import _OF_SCHEMA
from lua.bindings.call_wave import CallWave
from lua.bindings.data import DataBinding
from lua.bindings.functions import FunctionBinding
from lua.bindings.modules import _HALVES
from lua.bindings.schema import SchemaBinding
from lua.bindings.sequences import SequenceBinding
from test.unit.lua.support import Lua


def _exports(binding: type) -> set[str]:
    return set(binding._exports.values()) if issubclass(binding, Binding) else set()


@pytest.mark.parametrize("half", _HALVES)
def test_the_names_of_a_half_begin_with_its_prefixes(half: str) -> None:
    module, _, name = half.partition(".")
    exports = _exports(getattr(import_module(f"lua.bindings.{module}"), name))
    assert {export.partition("_")[0] for export in exports} <= set(_HALVES[half])


def test_the_names_of_the_schema_begin_with_its_prefixes() -> None:
    halves = (CallWave, DataBinding, FunctionBinding, SchemaBinding, SequenceBinding)
    exports = set().union(*map(_exports, halves))
    assert {export.partition("_")[0] for export in exports} == set(_OF_SCHEMA)


def test_no_prefix_belongs_to_two_halves() -> None:
    prefixes = [*_OF_SCHEMA, *(prefix for names in _HALVES.values() for prefix in names)]
    assert len(prefixes) == len(set(prefixes))


def test_a_half_is_made_once_when_one_of_its_functions_is_used(run: Callable[..., Any]) -> None:
    made = []

    async def test(lua: Lua) -> None:
        def make() -> None:
            made.append(1)
            lua.runtime.bind("one_number", lambda: 5)

        lua.runtime.bind_later(("one", "other"), make)
        assert await lua.value("return require('internal.python').something") is None
        assert made == []
        assert await lua.value("return require('internal.python').one_number()") == 5
        assert await lua.value("return require('internal.python').other_number") is None
        assert made == [1]

    run(test)


def test_a_half_that_cannot_be_made_is_an_error_of_lua(run: Callable[..., Any]) -> None:
    async def test(lua: Lua) -> None:
        def make() -> None:
            raise ImportError("no such library")

        lua.runtime.bind_later(("broken",), make)
        source = "local _, problem = pcall(function() return require('internal.python').broken_name end)"
        assert await lua.value(f"{source} return tostring(problem)") == "internal error, see the log"
        assert any("no such library" in text for _, text in lua.logged)

    run(test)
