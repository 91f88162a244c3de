"""Transactions: their state (`transaction`) and their life cycle (`lifecycle`).

Changes come in through `dml`, reads through `reads`; `box.wire.change` has their decoded and journal forms. `storage`
keeps the tuples, or `mvcc` if they have versions. Synchronous transactions wait in `limbo`, which `synchro` drives
under the `latch`.
"""
