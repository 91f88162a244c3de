"""The reference tables agree with the code: they have all names, and what they call missing is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from box.errinj import ErrorInjections
from box.error_codes import ErrorCode
from box.instance.option_registry import OPTIONS
from test.unit.docs.walkthrough import ROOT

DOCS = ROOT / "docs"

PROBE = """
local json = require('json')
box.cfg{log = 'log', listen = 'unix/:./socket'}
box.schema.user.grant('guest', 'super')
local space = box.schema.space.create('probe')
space:create_index('pk')
local fio, fiber, client = require('fio'), require('fiber'), require('net.box').connect('unix/:./socket')
box.schema.func.create('probed', {body = 'function() end'})
local objects = {
    ['space:'] = space, ['index:'] = space.index.pk, ['tuple:'] = box.tuple.new{1}, ['error:'] = box.error.new(1, ''),
    ['sequence:'] = box.schema.sequence.create('probe'), ['func:'] = box.func.probed, ['fiber:'] = fiber.self(),
    ['channel:'] = fiber.channel(), ['cond:'] = fiber.cond(), ['connection:'] = client,
    ['future:'] = client:eval('return', {}, {is_async = true}), ['uuid:'] = require('uuid').new(),
    ['file:'] = fio.open('probe', {'O_CREAT', 'O_RDWR'}),
    ['socket:'] = require('socket')('AF_INET', 'SOCK_STREAM', 'tcp'),
    ['test:'] = require('tap').test('probe'), ['buffer:'] = require('buffer').ibuf(),
    ['client:'] = require('http.client').new(),
    ['handle:'] = require('popen').new{'true'}, ['source:'] = require('merger').new_table_source(pairs({})),
    ['key_def:'] = require('key_def').new{{fieldno = 1, type = 'unsigned'}},
}
objects['swim:'] = require('swim').new{uuid = require('uuid').new(), uri = 0}
objects['member:'] = objects['swim:']:self()
local function step(value, name)
    local ok, found = pcall(function() return value[name] end)
    return ok and found or nil
end
-- What is called so: `box.ctl.promote`, `net.box.connect`, `space:get`, `print`.
local function look(namespace, name)
    if namespace == '_G.' then
        return rawget(_G, name)
    elseif namespace:sub(-1) == ':' then
        return step(objects[namespace], name)
    end
    local value, path = box, namespace
    if namespace == 'box.' or namespace:sub(1, 4) == 'box.' then
        path = namespace:sub(5)
    else
        local module = namespace:sub(1, -2)
        local rest = {}
        while true do
            local ok, found = pcall(require, module)
            if ok then
                value, path = found, table.concat(rest, '.') .. '.'
                break
            end
            local head, tail = module:match('^(.*)%.([^.]*)$')
            if head == nil then
                return nil
            end
            table.insert(rest, 1, tail)
            module = head
        end
    end
    for part in (path .. name):gmatch('[^.]+') do
        value = step(value, part)
        if value == nil then
            return nil
        end
    end
    return value
end
local request = json.decode(io.open('request.json'):read('*a'))
local absent, answers = {}, {}
for namespace, names in pairs(request.names) do
    for _, name in ipairs(names) do
        if look(namespace, name) == nil then
            absent[#absent + 1] = (namespace == '_G.' and '' or namespace) .. name
        end
    end
end
for name, expression in pairs(request.probes) do
    local ok, text = pcall(loadstring('return ' .. expression))
    answers[name] = {ok, tostring(text)}
end
local file = io.open('answer.json', 'w')
file:write(json.encode{absent = absent, answers = answers})
file:close()
os.exit(0)
"""


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS / "hooks"))
    import reference_tables

    return reference_tables


def asked(tables: Any, directory: Path) -> dict[str, Any]:
    """Return what a node tells about the names, and about the expressions that must fail."""
    own = {name: status for name, status in tables.lua_api.statuses().items() if status.kind == "own"}
    names = {namespace: list(members) for namespace, members in tables.lua_api.names().items()}
    for name in own:
        namespace, dot, member = name.rpartition(".")
        names[namespace + dot].append(member)
    probes = {name: status.probe for name, status in tables.lua_api.statuses().items() if status.kind == "missing"}
    (directory / "request.json").write_text(json.dumps({"names": names, "probes": probes}))
    (directory / "probe.lua").write_text(PROBE)
    command = [sys.executable, "-m", "console", "probe.lua"]
    done = subprocess.run(
        command, cwd=directory, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((directory / "answer.json").read_text())
    return found


def test_functions_of_lua_are_as_the_reference_says(tables: Any, tmp_path: Path) -> None:
    """Each function of the Lua reference exists unless it is called missing; missing ones fail."""
    said = tables.lua_api.statuses()
    answer = asked(tables, tmp_path)
    missing = {name for name, status in said.items() if status.kind == "missing"}
    assert set(answer["absent"]) <= missing
    for name, (ok, text) in answer["answers"].items():
        assert not ok, f"{name} is said to be missing, and works"
        assert "does not support" in text or name in answer["absent"], f"{name}: {text}"


def test_every_function_of_lua_has_a_line_on_a_page(tables: Any) -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference" / "lua").glob("*.md"))
    shown = {name for mark in re.findall(r"<!-- table: lua(?:-libraries)? (.*?) -->", text) for name in mark.split()}
    assert shown == tables.lua_api.names().keys()
    api = tables.lua_api
    for namespace, names in api.names().items():
        for name in names if namespace not in api.LISTED else ():
            assert api._signature(api.full_name(namespace, name))
    assert api.statuses().keys() <= {
        api.full_name(namespace, name) for namespace, names in api.names().items() for name in names
    } | {name for name, status in api.statuses().items() if status.kind == "own"}


def words_of_product(*without: str) -> set[str]:
    """Return the words in the product's files."""
    files = [
        path for top in ("box", "lua", "console") for kind in ("py", "lua") for path in (ROOT / top).rglob(f"*.{kind}")
    ]
    texts = (path.read_text() for path in files if str(path.relative_to(ROOT)) not in without)
    return {word for text in texts for word in re.findall(r"\w+", text)}


def test_every_option_has_an_effect_or_none(tables: Any) -> None:
    """Options described as without effect are those that only the registry mentions, and statistics of
    absent engines.
    """
    effects = {name: text for group in tables.options.groups().values() for name, text in group.items()}
    assert effects.keys() == OPTIONS.keys()
    words = words_of_product(
        "box/instance/option_checks.py",
        "box/instance/option_registry.py",
        "box/embed/node_options.py",
        "box/error_codes.py",
        "lua/modules/suite/instance.lua",
        "lua/modules/box/idle_stat.lua",
        "lua/modules/box/cfg_order.lua",
    )
    unused = OPTIONS.keys() - words
    assert {name for name, effect in effects.items() if effect == tables.options.NO_EFFECT} == unused


def test_every_injection_that_works_is_described(tables: Any) -> None:
    """The described error injections are those that the product reads."""
    words = words_of_product("box/errinj.py")
    used = {name for name in ErrorInjections().values if any(word.endswith(name) for word in words)}
    from reference_tables.markdown import facts

    assert {f"ERRINJ_{name}" for name in facts("error_injections.txt")} == used


def test_every_code_that_is_raised_has_a_meaning(tables: Any) -> None:
    from reference_tables.markdown import facts

    assert facts("error_codes.txt").keys() == tables.error_codes.raised()
    both = tables.error_codes.table_of_codes("raised") + tables.error_codes.table_of_codes("other")
    assert all(f"`{code.name}`" in both for code in ErrorCode)


@pytest.mark.parametrize(
    ("which", "module", "known"),
    [
        ("source", "box.spark.source_options", lambda module: module._KNOWN - {"paths"}),
        ("stream", "box.spark.stream.stream_options", lambda module: module._KNOWN),
        ("writer", "box.spark.write.write_options", lambda module: module._NODE | module._BULK),
    ],
)
def test_every_option_of_spark_is_described(tables: Any, which: str, module: str, known: Any) -> None:
    pytest.importorskip("pyarrow")
    from importlib import import_module

    shown = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", tables.spark_options.table(which), re.MULTILINE)
    names = {name.lower() for cell in shown for name in re.findall(r"\w+", cell)}
    assert names == known(import_module(module))


def test_a_table_that_is_not_there_is_an_error(tables: Any) -> None:
    with pytest.raises(KeyError):
        tables.expand("<!-- table: nothing -->")


def test_every_page_is_in_the_navigation() -> None:
    def paths(node: Any) -> set[str]:
        if isinstance(node, str):
            return {node}
        children = node.values() if isinstance(node, dict) else node
        return set().union(*map(paths, children))

    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert paths(navigation) == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
