"""`fio` and `xlog` in a simulated node use its disk, whose calls fail and whose data may be lost."""

from __future__ import annotations

from typing import Any

import pytest

from box.testing import SimulatedNode, Simulation
from box.testing.simulation.disk import READ_FAILS, SHORT_WRITES, WRITE_FAILS
from box.testing.simulation.simulated_node import NodeDied


async def start(simulation: Simulation) -> SimulatedNode:
    (node,) = await simulation.start_cluster(1, lua=True, wal_mode="fsync")
    return node


async def run(node: SimulatedNode, text: str, *arguments: Any) -> Any:
    """Return the values of Lua text that may use `fio`."""
    return await node.run(node.application.eval(f"local fio = require('fio') {text}", *arguments))


def simulate(seed: int, scenario: Any) -> Any:
    with Simulation(seed) as simulation:
        result = simulation.run(scenario(simulation))
        assert simulation.errors == []
        return result


def test_the_log_of_the_node_is_there() -> None:
    async def scenario(simulation: Simulation) -> Any:
        node = await start(simulation)
        await run(node, "box.schema.space.create('test'):create_index('pk') box.space.test:insert{1, 'one'}")
        listed, found, size, text, cwd, rows = await run(
            node,
            """
            local names = fio.glob('*.xlog')
            local f = fio.open(names[1])
            local data = f:read()
            local rows = {}
            for _, row in require('xlog').pairs(names[1]) do
                if row.BODY.space_id > 511 then
                    table.insert(rows, {row.HEADER.type, row.BODY.tuple})
                end
            end
            return fio.listdir('.'), names, f:stat().size == #data, data:sub(1, 4), fio.cwd(), rows
            """,
        )
        assert sorted(listed) == sorted(node.disk.names("."))
        assert found == [name for name in listed if name.endswith(".xlog")]
        return len(found), size, text, cwd, rows

    assert simulate(1, scenario) == (1, True, "XLOG", "/", [["INSERT", [1, "one"]]])


def test_paths_and_trees() -> None:
    async def scenario(simulation: Simulation) -> Any:
        return await run(
            await start(simulation),
            """
            local made = fio.mktree('a/b')
            local f = fio.open('/a/x', {'O_CREAT', 'O_WRONLY'}, tonumber('600', 8))
            f:write('text')
            f:close()
            local copied = fio.copytree('a', '/copy')
            fio.chdir('copy')
            local names = fio.listdir('.')
            local temporary = fio.tempdir()
            local missing, problem = fio.open('no/x')
            return made, copied, names, fio.abspath('x'), fio.path.is_dir(temporary), fio.dirname(temporary),
                fio.rmtree('/a'), fio.path.exists('../a'), missing == nil, problem.message, fio.stat('x').mode,
                fio.stat('x').mtime
            """,
        )

    *results, mode, mtime = simulate(1, scenario)
    assert results == [
        True,
        True,
        ["b", "x"],
        "/copy/x",
        True,
        "/tmp",
        True,
        False,
        True,
        "fio: No such file or directory",
    ]
    assert mode == 0o100600
    assert 1_600_000_000 <= mtime < 1_600_000_100


def test_a_kill_loses_no_write_and_the_power_does() -> None:
    text = """
        local fiber = require('fiber')
        local f = fio.open('count', {'O_CREAT', 'O_WRONLY', 'O_APPEND'}, tonumber('644', 8))
        for number = 1, 1000 do
            f:write(('%05d\\n'):format(number))
            if number == 10 then
                f:fsync()
                local directory = fio.open('/')
                directory:fsync()
            end
            fiber.sleep(0.01)
        end
    """

    async def scenario(simulation: Simulation, end: str) -> Any:
        node = await start(simulation)
        simulation.loop.call_later(3, getattr(node, end))
        with pytest.raises(NodeDied):
            await run(node, text)
        await node.start()
        (data,) = await run(node, "return {fio.open('count'):read()}")
        whole = "".join(f"{number:05}\n" for number in range(1, 1001))
        assert whole.startswith(data)
        return len(data)

    def sizes(end: str) -> list[int]:
        return [simulate(seed, lambda simulation: scenario(simulation, end)) for seed in range(3)]

    killed, powerless = sizes("kill"), sizes("lose_power")
    assert min(killed) > 600
    assert min(powerless) >= 60
    assert any(lost < kept and lost % 6 for lost, kept in zip(powerless, killed, strict=True)), "cut within a write"


KEEPER = """
    local function keep(number)
        local f = fio.open('state.new', {'O_CREAT', 'O_WRONLY', 'O_TRUNC'}, tonumber('644', 8))
        f:write(('%d '):format(number):rep(1000))
        if IS_SYNCED then
            f:fsync()
        end
        f:close()
        fio.rename('state.new', 'state')
        local directory = fio.open('.')
        directory:fsync()
        directory:close()
        box.space.kept:replace{1, number}
    end
    box.schema.space.create('kept', {if_not_exists = true}):create_index('pk', {if_not_exists = true})
    local first = (box.space.kept:get(1) or {1, 0})[2]
    for number = first + 1, first + 1000 do
        keep(number)
    end
"""


def keep_state(seed: int, *, is_synced: bool) -> list[Any]:
    """Run a program that replaces a file repeatedly and notes each version in a space, cut the power, and return the
    problems.
    """

    async def scenario(simulation: Simulation) -> list[str]:
        node, random, problems = await start(simulation), simulation.random("ends"), []
        for _ in range(4):
            simulation.loop.call_later(random.uniform(0.1, 1), node.lose_power)
            with pytest.raises(NodeDied):
                await run(node, f"local IS_SYNCED = {str(is_synced).lower()} {KEEPER}")
            await node.start()
            numbers, noted = await run(
                node,
                """
                local f = fio.open('state')
                return f and f:read() or '', (box.space.kept and box.space.kept:get(1) or {1, 0})[2]
                """,
            )
            found = numbers.split()
            if (len(found) != 1000 or len(set(found)) != 1) if found else noted:
                problems.append("torn or lost")
            elif found and int(found[0]) < noted:
                problems.append("older than what has been noted")
        return problems

    result: list[Any] = simulate(seed, scenario)
    return result


def test_a_file_that_is_synced_and_renamed_survives_the_power() -> None:
    assert [keep_state(seed, is_synced=True) for seed in range(3)] == [[]] * 3


def test_without_the_sync_a_simulation_finds_the_torn_file() -> None:
    assert any(keep_state(seed, is_synced=False) for seed in range(5))


def test_a_failing_disk() -> None:
    async def scenario(simulation: Simulation) -> Any:
        node = await start(simulation)
        await run(node, "f = fio.open('a', {'O_CREAT', 'O_RDWR'}, tonumber('644', 8)) f:write('bytes')")
        node.disk.faults |= {READ_FAILS}
        read = await run(node, "local data, problem = f:pread(5, 0) return {data == nil, problem.message}")
        node.disk.faults = {WRITE_FAILS}
        written = await run(node, "local ok, problem = f:write('more') return {ok, problem.message, problem.errno}")
        node.disk.faults = {SHORT_WRITES}
        short = await run(node, "return {f:pwrite(('x'):rep(10000), 0), f:stat().size}")
        node.disk.faults.clear()
        node.disk.capacity = node.disk.used + 10
        full = await run(node, "local ok, problem = f:pwrite(('x'):rep(100), 10000) return {ok, problem.message}")
        node.disk.heal()
        return [read, written, short, full, await run(node, "return f:stat().size")]

    assert simulate(1, scenario) == [
        [True, "fio: Input/output error"],
        [False, "fio: Input/output error", 5],
        [True, 10000],
        [False, "fio: No space left on device"],
        10010,
    ]


def test_reads_and_writes_take_the_time_of_the_disk_and_others_go_on() -> None:
    async def scenario(simulation: Simulation) -> Any:
        node = await start(simulation)
        node.disk.latency = (0.5, 0.5)
        return await run(
            node,
            """
            local fiber = require('fiber')
            local turns, is_over = 0, false
            fiber.create(function() while not is_over do turns = turns + 1 fiber.sleep(0.1) end end)
            local before = fiber.clock()
            local f = fio.open('a', {'O_CREAT', 'O_RDWR'}, tonumber('644', 8))
            f:write('x')
            f:fsync()
            f:pread(1, 0)
            is_over = true
            return fiber.clock() - before, turns
            """,
        )

    seconds, turns = simulate(1, scenario)
    assert seconds == pytest.approx(1.5, abs=0.1)
    assert turns >= 14


def test_files_that_nobody_closes_are_closed_by_the_collector() -> None:
    async def scenario(simulation: Simulation) -> Any:
        node = await start(simulation)
        return await run(
            node,
            """
            local first = fio.open('a', {'O_CREAT', 'O_RDWR'}, tonumber('644', 8)).fh
            for _ = 1, 100 do
                fio.open('a')
            end
            collectgarbage()
            collectgarbage()
            fio.open('a')
            local python, wait, closed = require('internal.python'), require('internal.wait'), 0
            for fd = first, first + 100 do
                closed = closed + (pcall(function() return wait(python.fio_fstat(fd)) end) and 0 or 1)
            end
            return closed
            """,
        )

    assert simulate(1, scenario) >= 50


def test_equal_seeds_give_equal_files() -> None:
    def outcome(seed: int) -> Any:
        async def scenario(simulation: Simulation) -> Any:
            node = await start(simulation)
            facts = await run(
                node,
                """
                local name = fio.tempdir()
                local f = fio.open(name .. '/a', {'O_CREAT', 'O_RDWR'}, tonumber('644', 8))
                f:write(('x'):rep(100000))
                return {name, f.fh, f:stat().inode, f:stat().mtime, require('fiber').time()}
                """,
            )
            node.lose_power()
            await node.start()
            return facts, await run(node, "return {fio.stat(...)}", facts[0]), node.disk.used

        return simulate(seed, scenario)

    assert outcome(1) == outcome(1)
    assert outcome(1) != outcome(2)
