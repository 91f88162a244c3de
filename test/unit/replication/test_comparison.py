"""`box.ctl.compare` on equal, diverged and incomparable instances, and its comparison of tuples."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from box.data.codec import pack
from box.errors import ErrorCode
from box.index.view import ListView
from box.replication.comparison import Comparison, SpaceDifference, SpaceMerge
from box.schema.ids import SpaceId

from .cluster import SPACE, Cluster, Member, cluster, equal, fails


async def compared(member: Member, other: Member) -> Comparison:
    return await member.node.replication.comparer.compare(other.uri)


def test_equal_instances() -> None:
    """Equal instances compare equal in all replicated tuples, those of system spaces included; the vclock is that of
    both.
    """

    async def main() -> None:
        async with cluster() as running:
            master, replica = await running.pair()
            for start in range(0, 2000, 100):
                await master.put(*([key, "x" * 20] for key in range(start, start + 100)))
            await master.make_space(600, "here", group_id=1)
            await master.put([1], space=600)
            await equal([master, replica])
            for one, other in ((master, replica), (replica, master)):
                found = await compared(one, other)
                assert found.differences == []
                assert found.vclock == master.node.state.vclock.without_zero()
                assert found.tuples > 2000
                assert found.uuid == other.node.state.instance_uuid

    asyncio.run(main())


async def diverged(running: Cluster) -> tuple[Member, Member]:
    """Start two instances that have written the same keys at the same time: their vclocks are equal, their tuples
    differ.
    """
    one, two = await running.pair()
    back = await running.proxy(two)
    await one.replicate(back)
    there = await running.proxy(one)
    await two.replicate(there)
    await one.put(*([key, "same"] for key in range(50)))
    await equal([one, two])
    back.hold()
    there.hold()
    await one.put([7, "one"], [100, "one"], operation="replace")
    await two.put([7, "two"], [100, "two"], operation="replace")
    back.release()
    there.release()
    return one, two


def test_diverged_instances() -> None:
    async def main() -> None:
        async with cluster() as running:
            one, two = await diverged(running)
            found = await compared(one, two)
            assert found.differences == [SpaceDifference(SPACE, "test", 51, 51, 0, 0, 2, [[7], [100]])]
            assert found.described()["is_equal"] is False
            assert found.described()["differences"][0]["keys"] == [[7], [100]]

    asyncio.run(main())


def test_vclocks_that_are_never_the_same() -> None:
    """A comparison of instances whose vclocks never agree fails, because one lacks rows of the other."""

    async def main() -> None:
        async with cluster() as running:
            one, two = await running.pair(replication_connect_timeout=0.3)
            await equal([one, two])
            await two.replicate()
            await one.put([1])
            error = await fails(compared(two, one))
            assert error.code == ErrorCode.TIMEOUT
            here, there = (member.node.state.vclock.without_zero() for member in (two, one))
            assert error.message == f"the vclocks were not the same at any moment: here {here}, there {there}"

    asyncio.run(main())


def test_a_comparison_waits_for_rows_on_their_way() -> None:
    async def main() -> None:
        async with cluster() as running:
            one, two = await running.pair()
            proxy = await running.proxy(one)
            await two.replicate(proxy)
            await equal([one, two])
            proxy.hold()
            await one.put([1])
            comparison = asyncio.ensure_future(compared(two, one))
            await asyncio.sleep(0.05)
            assert not comparison.done()
            proxy.release()
            assert (await comparison).differences == []

    asyncio.run(main())


def test_what_cannot_be_compared() -> None:
    """A comparison fails with no address, an unreachable one, an instance without rights, and one of another replica
    set.
    """

    async def main() -> None:
        async with cluster() as running:
            one = await running.member().start(replication_connect_timeout=0.5)
            comparer = one.node.replication.comparer
            assert (await fails(comparer.compare("::"))).code == ErrorCode.CFG
            error = await fails(comparer.compare(f"unix/:{running.directory}/nobody"))
            assert error.code == ErrorCode.SYSTEM
            assert (await fails(compared(one, one))).code == ErrorCode.ACCESS_DENIED
            other = await running.master()
            error = await fails(compared(one, other))
            assert error.code in (ErrorCode.TIMEOUT, ErrorCode.REPLICASET_UUID_MISMATCH)
            for _ in range(50):
                if one.node.state.vclock.without_zero() == other.node.state.vclock.without_zero():
                    break
                await one.put([1, 0, "universe", 0, 0xFFFFFFFF], space=SpaceId.PRIV, operation="replace")
            error = await fails(compared(one, other))
            assert error.code == ErrorCode.REPLICASET_UUID_MISMATCH

    asyncio.run(main())


# -- side by side ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_tuples_side_by_side(seed: int) -> None:
    """However tuples are sliced, each one without an equal counterpart is counted once, under its kind of difference."""

    async def main() -> None:
        async with cluster() as running:
            master = await running.master()
            space = master.node.schema.space(SPACE)
            random = Random(seed)
            for _ in range(20):
                keys = random.randint(0, 40)
                here = {key: random.randint(0, 3) for key in range(keys) if random.random() < 0.8}
                there = {key: value if random.random() < 0.8 else 9 for key, value in here.items()}
                there = {key: value for key, value in there.items() if random.random() < 0.9}
                there |= {key: 1 for key in range(keys) if key not in here and random.random() < 0.3}
                merge = SpaceMerge(SPACE, space, ListView(packed(here)))
                rest = packed(there)
                while rest:
                    count = random.randint(1, 7)
                    merge.add(rest[:count])
                    rest = rest[count:]
                merge.finish()
                found = merge.result
                assert (found.here, found.there) == (len(here), len(there))
                assert found.missing_here == len(there.keys() - here.keys())
                assert found.missing_there == len(here.keys() - there.keys())
                odd = [key for key in here.keys() & there.keys() if here[key] != there[key]]
                assert found.different == len(odd)
                expected = sorted({*odd, *(here.keys() ^ there.keys())})
                assert found.keys == [[key] for key in expected[:10]]

    asyncio.run(main())


def packed(tuples: dict[int, Any]) -> list[bytes]:
    return [pack([key, value]) for key, value in sorted(tuples.items())]


def test_a_space_that_only_one_has() -> None:
    merge = SpaceMerge(999, None, None)
    merge.add([pack([1, 2]), pack([2, 3])])
    merge.finish()
    assert merge.result == SpaceDifference(999, "999", 0, 2, 2, 0, 0, [[1, 2], [2, 3]])
