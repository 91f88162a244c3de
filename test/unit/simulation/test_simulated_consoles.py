"""The admin console of simulated nodes, over the simulated network."""

from __future__ import annotations

from typing import Any

from box.testing import Simulation

ASK = """
    local host, statement = ...
    local socket = require('socket').tcp_connect(host, 3302, 10)
    if not socket then return nil end
    local greeting = socket:read(128)
    socket:write(statement .. '\\n')
    local answer = socket:read({delimiter = '...\\n'}, 10)
    socket:close()
    return greeting:sub(1, 29), answer
"""
GREETING = "Tarantool 2.8.1 (Lua console)"


def test_an_administrator_comes_from_another_host() -> None:
    async def scenario(simulation: Simulation) -> None:
        first, second = await simulation.start_cluster(2, lua=True)

        async def ask(statement: str) -> Any:
            return await second.run(second.application.eval(ASK, "node1", statement))

        await first.run(first.application.eval("name = 'first' server = require('console').listen(3302) return true"))
        assert await ask("name, box.session.type()") == [GREETING, "---\n- first\n- console\n...\n"]
        begin = simulation.loop.time()
        assert await ask("require('fiber').sleep(100)") == [GREETING, None]
        assert simulation.loop.time() - begin < 20
        await first.run(first.application.eval("server:close()"))
        assert await ask("1") is None

    with Simulation(1) as simulation:
        simulation.run(scenario(simulation))


def test_a_console_ends_with_its_process() -> None:
    """A console's clients are disconnected when its process ends, and the next process listens again."""

    async def scenario(simulation: Simulation) -> None:
        first, second = await simulation.start_cluster(2, lua=True)
        listen = "require('console').listen('node1:3302') return true"
        await first.run(first.application.eval(listen))
        call = simulation.loop.create_task(
            second.run(second.application.eval(ASK, "node1", "require('fiber').sleep(100)"))
        )
        await simulation.sleep(1)
        first.kill()
        assert await call == [GREETING, ""]
        await first.start()
        await first.run(first.application.eval(listen))
        assert await second.run(second.application.eval(ASK, "node1", "1")) == [GREETING, "---\n- 1\n...\n"]

    with Simulation(2) as simulation:
        simulation.run(scenario(simulation))
