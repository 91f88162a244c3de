"""box.cfg, and what may be used before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.errors import BoxError
from lua.bindings.environment import options_from_environment
from test.support import refusing_address

from .box_support import Box, Run


def test_most_of_box_is_refused_before_configuration(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box("return type(box.cfg), type(box.error), type(box.tuple.new)") == [
            "function",
            "table",
            "function",
        ]
        assert "Please call box.cfg{} first" in await box.fails("return box.space")
        assert "Please call box.cfg{} first" in await box.fails("box.begin()")
        assert await box.fails("box.session.su('admin')") == "Please call box.cfg{} first"

    run(body, configure=False)


def test_a_wrong_option_leaves_box_unconfigured(run: Run) -> None:
    async def body(box: Box) -> None:
        assert await box.fails("box.cfg{foo = 1}") == "Incorrect value for option 'foo': unexpected option"
        assert "bad argument #1 to 'pairs' (table expected, got number)" in await box.fails("box.cfg(5)")
        assert await box("return type(box.cfg)") == "function"
        await box("box.cfg{log_level = 1, wal_mode = 'none'}")
        assert await box("return type(box.cfg), box.cfg.wal_mode, box.info.status") == ["table", "none", "running"]

    run(body, configure=False)


def test_options_change_and_show_their_values(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("saved = box.cfg; box.cfg{read_only = true, too_long_threshold = 2}")
        assert await box("return box.cfg.read_only, saved == box.cfg, box.cfg.listen") == [True, True, None]
        assert "read-only mode" in await box.fails("box.schema.space.create('x')")
        await box("box.cfg{read_only = box.NULL}")
        assert await box("return box.cfg.read_only") is False
        assert await box.fails("box.cfg{wal_mode = 'write'}") == "Can't set option 'wal_mode' dynamically"
        assert "Attempt to modify a read-only table" in await box.fails("box.cfg.unknown = true")

    run(body)


def test_writes_that_take_too_long_are_logged(run: Run, tmp_path: Path) -> None:
    """`too_long_threshold` may be set at any time; the log names the rows of a transaction."""

    async def body(box: Box) -> None:
        told: list[str] = []
        box.instance.node.log.forward = lambda level, text: told.append(text)
        await box("s = box.schema.space.create('s') s:create_index('pk') box.cfg{too_long_threshold = 0}")
        lsn = await box("box.atomic(function() s:replace{1} s:replace{2} end) return box.info.lsn")
        assert [text for text in told if text.startswith(f"too long WAL write: 2 rows at LSN {lsn - 1}: ")]

    run(body, tmp_path, wal_mode="write", log_level=5)


def test_the_metatable_of_cfg_can_be_replaced(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("getmetatable(box.cfg).__call = function(_, options) seen = options.mark end")
        assert await box("box.cfg{mark = 7} return seen") == 7

    run(body)


def test_triggers_of_schema_init_see_system_spaces(run: Run) -> None:
    async def body(box: Box) -> None:
        await box("""
            box.ctl.on_schema_init(function() seen = {box.info.status, box.space._space.name} end)
            box.cfg{log_level = 1, wal_mode = 'none'}
        """)
        assert await box("return seen") == ["unconfigured", "_space"]

    run(body, configure=False)


def test_tables_of_box_cfg_itself_are_no_change(run: Run) -> None:
    """Options with the tables that box.cfg shows change nothing, as in Tarantool, also if these were modified."""

    async def body(box: Box) -> None:
        await box("box.cfg{replication = {}} given = box.cfg.replication table.insert(given, 'nonsense')")
        await box("box.cfg{replication = given, read_only = true}")
        assert await box("return box.cfg.read_only") is True
        assert "Incorrect value for option 'replication'" in await box.fails("box.cfg{replication = {'nonsense'}}")

    run(body)


def test_options_without_an_order_are_changed_last(run: Run) -> None:
    """If a change fails, options that Tarantool would apply later keep their values: here read_only."""

    async def body(box: Box) -> None:
        text = await box.fails("box.cfg{replication_anon = true, read_only = true}")
        assert text.endswith("'replication_anon': the value may be set to true only when the instance is read-only")
        assert await box("return box.cfg.read_only, box.info.ro") == [False, False]

    run(body)


def test_environment_options() -> None:
    options = options_from_environment(
        {"TT_LISTEN": "3301", "TT_READ_ONLY": "True", "TT_REPLICATION": "a:1,2", "X": "1"}
    )
    assert options == {"listen": 3301, "read_only": True, "replication": ["a:1", 2]}
    with pytest.raises(BoxError, match='TT_READ_ONLY has incorrect value for option "read_only": should be "true"'):
        options_from_environment({"TT_READ_ONLY": "yes"})


def test_two_first_configurations(run: Run) -> None:
    """Of two concurrent first calls of box.cfg the second waits; if the first fails, the second one starts the
    instance.
    """

    async def body(box: Box) -> None:
        failed, problem, ok, status, count = await box(
            f"""
            local fiber = require('fiber')
            local second = fiber.new(function() return pcall(box.cfg, {{log_level = 1, checkpoint_count = 7}}) end)
            second:set_joinable(true)
            local failed, problem = pcall(box.cfg, {{
                log_level = 1, replication = '{address}', replication_connect_timeout = 0.1,
            }})
            local _, ok = second:join()
            return failed, tostring(problem), ok, box.info.status, box.cfg.checkpoint_count
            """
        )
        assert (failed, ok, status, count) == (False, True, "running", 7)
        assert "failed to connect to one or more replicas" in problem

    with refusing_address() as address:
        run(body, configure=False)
