"""`box.cfg.replication`: the greatest number of sources, and the states of their appliers."""

from __future__ import annotations

import asyncio
import re

from box.errors import ErrorCode
from test.support import until

from .cluster import Member, cluster, fails


def test_more_sources_than_a_replica_set_has_members() -> None:
    """32 sources are refused, at the start and later; the former ones stay."""

    async def main() -> None:
        async with cluster() as running:
            nobody = [f"unix/:{running.directory}/{number}.sock" for number in range(32)]
            error = await fails(running.member().start(*nobody))
            wanted = "Incorrect value for option 'replication': too many replicas"
            assert (error.code, error.message) == (ErrorCode.CFG, wanted)
            master, replica = await running.pair()
            await until(lambda: replica.follows(master))
            assert (await fails(replica.replicate(*nobody))).message == wanted
            assert replica.follows(master)
            error = await fails(running.member().start(*nobody[1:], replication_connect_timeout=0.1))
            assert error.message.endswith("failed to connect to one or more replicas")

    asyncio.run(main())


def states(member: Member) -> list[str]:
    """Return the states of the member's appliers, as its log has them."""
    return re.findall("=> ([A-Z_]+)", member.log)


def test_states_of_an_anonymous_replica_that_registers() -> None:
    """The log shows Tarantool's states when an anonymous replica registers: a stopped applier is OFF twice."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            replica = await running.member().start(master, replication_anon=True, read_only=True, log_level=7)
            await until(lambda: replica.follows(master))
            begin = ["CONNECT", "CONNECTED", "READY", "FETCH_SNAPSHOT", "FETCHED_SNAPSHOT", "READY", "SYNC", "FOLLOW"]
            assert states(replica) == begin
            await replica.node.configure({"replication_anon": False})
            await until(lambda: replica.follows(master))
            later = ["CONNECT", "CONNECTED", "OFF", "OFF", "READY", "REGISTER", "REGISTERED", "READY", "SYNC", "FOLLOW"]
            assert states(replica) == begin + later
            error = await fails(replica.node.configure({"replication_anon": True}))
            wanted = "Incorrect value for option 'replication_anon': cannot be turned on after bootstrap has finished"
            assert (error.code, error.message) == (ErrorCode.CFG, wanted)
            await replica.replicate()
            assert states(replica)[len(begin + later) :] == ["OFF", "OFF"]

    asyncio.run(main())
