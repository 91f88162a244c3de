"""Embedded nodes for programs without an event loop, such as scripts and notebooks.

    from box.sync import Node

    with Node("data") as node:
        goods = node.schema.create_space("goods", format=["id", "name"], if_not_exists=True)
        goods.create_index("pk", if_not_exists=True)
        goods.replace({"id": 1, "name": "pear"})
        with node.transaction():
            goods.update(1, [["=", "name", "fig"]])
        for row in goods:
            print(row)

Every class has a counterpart in `box` and the same methods, which wait for the outcome and raise the same errors. The
node has its own thread and loop. Calls may come from any other thread, and from several at once. Triggers and functions
run in the node's thread, where a blocking call raises RuntimeError; they may be coroutine functions that use
`Node.asynchronous`.

```
Node                     blocking_node.py          starts and stops the thread, Lua, functions
BlockingSpaces, ...      blocking_schema.py        the dictionary
BlockingSpace, ...       blocking_handles.py       spaces, indexes, triggers, streams of changes
BlockingPrepared         blocking_prepared.py      prepared statements of SQL
BlockingTransaction      blocking_transaction.py
```
"""

from __future__ import annotations

from box.sync.blocking_handles import BlockingChanges, BlockingIndex, BlockingSpace
from box.sync.blocking_node import BlockingNode
from box.sync.blocking_prepared import BlockingPrepared
from box.sync.blocking_schema import BlockingSchema, BlockingSequence, BlockingSpaces
from box.sync.blocking_transaction import BlockingTransaction

Node = BlockingNode

__all__ = [
    "BlockingChanges",
    "BlockingIndex",
    "BlockingNode",
    "BlockingPrepared",
    "BlockingSchema",
    "BlockingSequence",
    "BlockingSpace",
    "BlockingSpaces",
    "BlockingTransaction",
    "Node",
]
