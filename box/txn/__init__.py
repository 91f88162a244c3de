"""Transactions: what a transaction carries (`transaction`), how it goes (`lifecycle`).

Requests come in through `dml` (changes) and its base `reads`; their decoded and journal forms are in `box.wire.change`.
Tuples live in `storage`, or with versions in `mvcc`. Synchronous transactions wait in `limbo`, which `synchro` moves
on under the `latch`.
"""
