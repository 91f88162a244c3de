"""The mutations of `make teeth` that are about elections and promotions; see `test.mutations`."""

from __future__ import annotations

from typing import Final

from test.mutation import Edit, Mutation

_CLAIMED: Final = "        decision = await self._claimed(term, check_leads)\n"
_UNCLAIMED: Final = Edit(
    "box/txn/promoter.py", _CLAIMED, "        check_leads()\n        decision = self._decide(term)\n"
)
"""Leaders write PROMOTE without a claim, as Tarantool 2.8.1 does."""
_EQUAL_LOGS: Final = Edit(
    "box/replication/raft.py", "        return ours - theirs if ours and theirs else 0\n", "        return 0\n"
)
"""Votes do not compare the terms of the logs."""

# Several remedies matter only to a PROMOTE without a claim, as Tarantool 2.8.1 writes it: their stories do without too.
ELECTIONS: Final = (
    Mutation(
        "a snapshot that forgets promotions",
        "box/instance/checkpoint.py",
        'if self._config["replication_keep_promotions"] is False:',
        "if True:",
        story="test/unit/simulation/test_forgotten_promotions.py::"
        "test_a_node_that_knows_promotions_takes_void_rows_without_effect",
    ),
    Mutation(
        "a log that goes on behind a new join",
        "box/journal/wal.py",
        "            previous = self.vclock.copy()\n",
        "            pass\n",
        "async",
        "all",
        seconds=110,
        rate=5,
        corpus="a-log-behind-a-new-join",
    ),
    Mutation(
        "acknowledgements that count for a former leader",
        "box/replication/elections.py",
        "        synchro.others_may_lead = self._others_may_lead\n"
        "        synchro.is_forbidden = lambda: self.is_read_only\n"
        "        synchro.may_decide = self._may_decide\n",
        "        synchro.is_forbidden = lambda: self.is_read_only\n",
        "set",
        "depose,isolate,only,split,kill",
        5,
        elections="candidate",
        seconds=20,
        first=146,
        rate=10,
        fetch_once=True,
        corpus="acknowledgements-for-a-former-leader",
    ),
    Mutation(
        "a promotion that stays though the next leader has not heard of it",
        "box/txn/promotion_history.py",
        "            if leader.knows(promotion.origin_id, promotion.lsn) or promotion.term >= leader.term:\n",
        "            if True:\n",
        story="test/unit/simulation/test_promotion_unheard_of.py::test_what_is_confirmed_later_is_taken",
    ),
    Mutation(
        "a promotion without an effect that takes effect if it arrives late",
        "box/txn/promotion_record.py",
        "(row.replica_id, row.lsn) in self.void_promotions",
        "False",
        story="test/unit/simulation/test_promotion_comes_later.py::test_it_rolls_nothing_back",
    ),
    Mutation(
        "rows on their way to the log that keep a promotion",
        "box/txn/synchro.py",
        "            first = lsn + 1  # the first entry has no lsn yet",
        "            first = 0  # the first entry has no lsn yet",
        story="test/unit/simulation/test_promotion_unheard_of.py::"
        "test_what_is_on_its_way_to_the_log_is_rolled_back_too",
    ),
    Mutation(
        "a start that asks for rows after a promotion without an effect",
        "box/instance/loader.py",
        "note_recovered(rows[-1].replica_id, self._promotions, self._ends)",
        "note_recovered(rows[-1].replica_id, self._promotions, {})",
        story="test/unit/simulation/test_promotion_without_effect.py::test_a_start_does_not_ask_for_what_followed_it",
    ),
    Mutation(
        "a leader that takes changes before it has taken over",
        "box/replication/elections.py",
        "return raft.is_enabled and (raft.role is not Role.LEADER or not self._has_taken_over)",
        "return raft.is_read_only",
        "register",
        "stumble",
        elections="candidate",
        seconds=12,
        corpus="a-leader-before-its-promote",
    ),
    Mutation(
        "a vote that forgets rows on their way to the log",
        "box/replication/elections.py",
        "void.needed(coming())",
        "void.needed(own_vclock())",
        story="test/unit/simulation/test_vote_beside_a_write.py::"
        "test_a_vote_counts_rows_that_are_on_their_way_to_the_log",
    ),
    Mutation(
        "a promotion without a claim",
        *_UNCLAIMED,
        story="test/unit/simulation/test_claims_of_leaders.py::"
        "test_a_decision_that_no_majority_knows_of_has_no_effect_anywhere",
    ),
    Mutation(
        "a promotion that does not wait until a quorum has its claim",
        "box/txn/promoter.py",
        "        await self._wait(lambda: self.voters_with(own_id, lsn), self._access.voters_needed, check_leads)\n",
        "",
        story="test/unit/simulation/test_claims_of_leaders.py::"
        "test_a_decision_that_no_majority_knows_of_has_no_effect_anywhere",
    ),
    Mutation(
        "a vote that does not compare the terms of the logs",
        *_EQUAL_LOGS,
        story="test/unit/simulation/test_claims_of_leaders.py::"
        "test_the_later_log_leads_though_the_other_one_has_a_row_of_its_own",
    ),
    Mutation(
        "neither claims nor terms of logs, three nodes",
        *_UNCLAIMED,
        "unique",
        "stumble,flush,slow,halt",
        elections="candidate",
        seconds=60,
        first=2253,
        rate=2,
        corpus="rows-that-a-promotion-unknown-here-made-void",
        also=(_EQUAL_LOGS,),
    ),
    Mutation(
        "a second vote in a term",
        "box/replication/raft.py",
        '        if self.vote:\n            return "already voted in this term"\n',
        "",
        "register",
        "depose,process,network",
        elections="candidate",
        seconds=20,
    ),
    Mutation(
        "a vote that a restart forgets",
        "box/replication/raft.py",
        "        self.vote = request.vote or self.vote\n        self._recorded",
        "        self.vote = 0\n        self._recorded",
        "register",
        "depose,kill,crash,split",
        elections="candidate",
        seconds=30,
    ),
    Mutation(
        "a vote of an earlier term",
        "box/replication/raft.py",
        "if request.term < self.term:\n            return  # the row was written",
        "if False:\n            return  # the row was written",
        "register",
        "rivals",
        elections="manual",
        seconds=30,
    ),
    Mutation(
        "an election that is won by a vote too few",
        "box/replication/raft.py",
        "        self._voters.add(source)\n        if len(self._voters) >= self.quorum:\n",
        "        self._voters.add(source)\n        if len(self._voters) + 1 >= self.quorum:\n",
        "register",
        "process,network",
        5,
        elections="candidate",
        seconds=20,
    ),
    Mutation(
        "a vote for a candidate with fewer rows",
        "box/replication/raft.py",
        "        return self._lacks(request)\n\n    def _log_terms_differ",
        '        return ""\n\n    def _log_terms_differ',
        "set",
        "depose,kill,slow",
        elections="candidate",
        seconds=20,
    ),
    # Needs a vote given while the row of a new term without one is being written: `box.ctl.promote` writes such a row.
    Mutation(
        "a vote that is told before it is recorded",
        "box/replication/raft.py",
        "RaftRequest(self._recorded.term, self._recorded.vote, self.role, vclock,",
        "RaftRequest(self.term, self.vote, self.role, vclock,",
        "register",
        "promote,flush,latency",
        elections="manual",
        seconds=20,
    ),
    Mutation(
        "a leader that does not step down",
        "box/replication/raft.py",
        "        self.term, self.vote, self.leader_id = term, 0, 0\n        self.role = Role.FOLLOWER\n",
        "        self.term, self.vote, self.leader_id = term, 0, 0\n",
        "register",
        "depose,isolate,halt",
        elections="candidate",
        seconds=20,
    ),
    Mutation(
        "a heartbeat that does not count",
        "box/replication/raft.py",
        "            self._wait_for(Waiting.LEADER_DEAD, self._death_timeout)\n\n    def time_out",
        "            pass\n\n    def time_out",
        "register",
        "none",
        elections="candidate",
        seconds=20,
    ),
    Mutation(
        "rows of an instance that does not lead",
        "box/replication/elections.py",
        "        return not self.raft.is_enabled or self.raft.leader_id == source\n",
        "        return True\n",
        "register",
        "depose,only,cut,slow",
        elections="candidate",
        seconds=30,
    ),
    Mutation(
        "rows of a former leader that count",
        "box/replication/elections.py",
        "        return self.raft.is_enabled and self._synchro.limbo.is_outdated(origin_id)\n",
        "        return False\n",
        "unique",
        "depose,isolate,halt",
        elections="candidate",
        seconds=30,
    ),
    # With three nodes nobody could see it: what waits at a candidate is at its origin, too, and two are a quorum.
    Mutation(
        "a promotion that does not wait for a quorum",
        "box/txn/promoter.py",
        "        while count() < quorum():\n",
        "        while False:\n",
        "set",
        "heir",
        5,
        elections="candidate",
        seconds=20,
    ),
    Mutation(
        "a deposed leader that rolls back by its timeout",
        "box/txn/synchro.py",
        " or not self.may_decide():\n            return None  # `may_decide` is last: an empty limbo needs no leader\n"
        "        return limbo.decide(self._loop.time(), self if self.voters_needed() > 1 else None)\n",
        ":\n            return None\n        return limbo.decide(self._loop.time())\n",
        "set",
        "lapse",
        5,
        elections="candidate",
        seconds=20,
        hazards=True,
    ),
    Mutation(
        "a promotion that confirms nothing",
        "box/txn/promoter.py",
        "SynchroRequest(RequestType.PROMOTE, decision.owner_id, decision.lsn, term, self._limbo.instance_id)",
        "SynchroRequest(RequestType.PROMOTE, decision.owner_id, 0, term, self._limbo.instance_id)",
        "set",
        "depose,kill,crash",
        elections="candidate",
        seconds=20,
    ),
)
