"""`replication_fetch_once`: the assignment of members to sources, and which sources are asked anew, without sockets."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random
from uuid import UUID

import pytest

from box.replication.fetch_once import Assignment, FetchSource, affected, assign
from box.wire.vclock import VClock

A, B, C, D, E = UUIDS = [UUID(int=number) for number in range(1, 6)]
HERE = VClock({1: 10, 2: 10, 3: 10, 4: 10, 5: 10})


def source(uuid: UUID, vclock: dict[int, int] | None = None, *, full: bool = False, member_id: int = -1) -> FetchSource:
    number = uuid.int if member_id < 0 else member_id
    return FetchSource(uuid, number, VClock(vclock or {}), full)


def decided(*sources: FetchSource, before: Assignment | None = None, leader: int = 0, own: int = 5) -> dict[int, str]:
    """Return the assignment of five members as `{source: members}`."""
    members = [number for number in range(1, 6) if number != own]
    found = assign(members, sources, HERE, before or {}, leader)
    return {uuid.int: "".join(map(str, sorted(ids))) for uuid, ids in found.items()}


def test_each_source_gives_its_own_rows() -> None:
    """Each connected source is asked for its own rows (case 1)."""
    assert decided(*map(source, (A, B, C, D))) == {1: "1", 2: "2", 3: "3", 4: "4"}


def test_others_go_round() -> None:
    """Members without a connected source go to the sources that give the fewest, by id (cases 3 and 4)."""
    assert decided(source(A), source(B)) == {1: "13", 2: "24"}
    assert decided(source(C)) == {3: "1234"}
    assert decided(source(B), source(D), source(C)) == {2: "12", 3: "3", 4: "4"}


def test_a_source_that_is_known_to_have_the_rows_is_asked() -> None:
    """A member's rows are asked from the source that is known to have them (case 3): only B has those of D."""
    assert decided(source(A, {4: 10}), source(B, {4: 11}), source(C, {4: 9})) == {1: "1", 2: "24", 3: "3"}
    assert decided(source(A, {4: 11}), source(B, {4: 12}), source(C)) == {1: "14", 2: "2", 3: "3"}


def test_what_was_given_stays() -> None:
    """An assignment stays (case 2) until its source is gone, or knows fewer rows than another one."""
    before = {C: frozenset({3, 4})}
    assert decided(source(A), source(B), source(C), before=before) == {1: "1", 2: "2", 3: "34"}
    assert decided(source(A), source(B), before=before) == {1: "13", 2: "24"}
    assert decided(source(A), source(B, {4: 11}), source(C, {4: 10}), before=before) == {1: "1", 2: "24", 3: "3"}
    assert decided(source(A), source(B, {4: 11}), source(C, {4: 11}), before=before) == {1: "1", 2: "2", 3: "34"}


def test_a_source_that_comes_back_gets_its_own() -> None:
    before = {A: frozenset({1, 3}), B: frozenset({2, 4})}
    assert decided(*map(source, (A, B, C, D)), before=before) == {1: "1", 2: "2", 3: "3", 4: "4"}


def test_a_source_that_has_to_give_everything() -> None:
    """A source that cannot filter is asked for everything (case 5)."""
    assert decided(source(A), source(B, full=True), source(C), source(D)) == {1: "1", 2: "1234", 3: "3", 4: "4"}


def test_an_elected_leader_gives_everything() -> None:
    """An elected leader is asked for everything (case 6); one that is no source, or this instance, changes nothing."""
    assert decided(source(A), source(B), source(C), source(D), leader=3) == {1: "1", 2: "2", 3: "1234", 4: "4"}
    assert decided(source(A), source(B), leader=3) == {1: "13", 2: "24"}
    assert decided(source(A), source(B), leader=5) == {1: "13", 2: "24"}


def test_a_source_without_an_id() -> None:
    """An anonymous source may give the rows of others; leader id 0 means that there is none."""
    stranger = source(UUID(int=9), member_id=0)
    assert decided(stranger) == {9: "1234"}
    assert decided(stranger, source(B)) == {9: "13", 2: "24"}


def test_nobody_is_connected() -> None:
    """Without connected sources nothing is assigned (case 7)."""
    assert decided() == {}


@pytest.mark.parametrize("seed", range(100))
def test_every_member_has_a_giver(seed: int) -> None:
    """For any vclocks and any former assignment each member is assigned exactly once, unless one source gives
    everything.
    """
    random = Random(seed)
    members = random.sample(range(1, 6), random.randint(1, 5))
    clocks = [VClock({n: random.randint(1, 20) for n in random.sample(range(1, 6), 3)}) for _ in UUIDS]
    sources = [
        FetchSource(uuid, random.choice([uuid.int, 0]), clock, random.random() < 0.1)
        for uuid, clock in zip(UUIDS, clocks, strict=True)
        if random.random() < 0.7
    ]
    before = {uuid: frozenset(random.sample(range(1, 6), 2)) for uuid in UUIDS}
    leader = random.randint(0, 5)
    found = assign(members, sources, HERE, before, leader)
    given = list(chain.from_iterable(found.values()))
    assert set(found) == {each.uuid for each in sources}
    assert set(given) == (set(members) if sources else set())
    if not any(each.gives_everything or each.id == leader != 0 for each in sources):
        assert len(given) == len(set(given))
    assert assign(members, sources, HERE, found, leader) == found


# -- what is asked anew ----------------------------------------------------------------------------------------


def ids(text: str) -> frozenset[int]:
    return frozenset(map(int, text))


def asked_anew(wanted: dict[UUID, str], asked: dict[UUID, str | None]) -> list[UUID]:
    return affected(
        ids("1234"),
        {uuid: ids(text) for uuid, text in wanted.items()},
        {uuid: None if text is None else ids(text) for uuid, text in asked.items()},
    )


def test_nothing_has_changed() -> None:
    assert asked_anew({A: "13", B: "24"}, {A: "13", B: "24"}) == []
    assert asked_anew({A: "1234"}, {A: None}) == []


def test_only_a_source_that_lacks_something_is_asked_anew() -> None:
    """Only sources that have to send more members are asked anew."""
    assert asked_anew({A: "13", B: "24"}, {A: "1", B: "24"}) == [A]


def test_what_is_too_much_is_given_up_when_another_one_gives_it() -> None:
    """A source that returns is asked for its own rows again; the substitute sends them until the source does."""
    wanted = {A: "1", B: "24", C: "3"}
    assert asked_anew(wanted, {A: "13", B: "24"}) == []
    assert asked_anew(wanted, {A: "13", B: "24", C: "3"}) == [A]


def test_from_everything_to_parts() -> None:
    wanted = {A: "1", B: "2", C: "3", D: "4"}
    assert asked_anew(wanted, dict.fromkeys(wanted)) == [A, B, C, D]
    assert asked_anew(wanted, {A: None, B: None, C: None}) == []


@pytest.mark.parametrize("seed", range(60))
def test_from_any_subscriptions_to_any_assignment(seed: int) -> None:
    """From any subscriptions the rounds lead to the assignment, and no member is ever without a source after the first
    round.
    """
    random = Random(seed)
    members = [1, 2, 3, 4]
    sources = [source(uuid) for uuid in random.sample(UUIDS[:4], random.randint(1, 4))]
    wanted = assign(members, sources, HERE, {}, random.choice([0, 0, 1]))
    choices: list[frozenset[int] | None] = [None, *map(frozenset, combinations(members, 2))]
    asked = {each.uuid: random.choice(choices) for each in sources}

    def given() -> set[int]:
        return set(chain.from_iterable(members if found is None else found for found in asked.values()))

    for turn in range(10):
        todo = affected(members, wanted, asked)
        for uuid in todo:
            asked[uuid] = wanted[uuid]
            assert given() == set(members) or not turn
    assert given() == set(members)
    assert {uuid: frozenset(members) if found is None else found for uuid, found in asked.items()} == wanted
