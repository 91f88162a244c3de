"""Transactions: who asks (`context`), what a transaction carries (`transaction`), how it goes (`manager`).

Requests come in through `dml` (changes) and its base `reads`; their decoded and journal forms are in `request`.
Tuples live in `storage`, or with versions in `mvcc`. Synchronous transactions wait in `limbo`, which `synchro` moves
on under the `latch`.
"""
