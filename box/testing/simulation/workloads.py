"""The workloads by name.

```
workload       space          clients                                        checked
register       synchronous    write, read, compare and set of few keys       linearisable
list           synchronous    append, read                                   linearisable
unique         synchronous    insert, delete, read                           linearisable
bank           synchronous    transfers between ten accounts                 the sum is constant on every node, always
set            synchronous    inserts                                        acknowledged rows exist, refused do not
async          asynchronous   inserts at every node, of keys of its own      as for set; transactions are whole
token          asynchronous   changes of rows that go from node to node      acknowledged changes exist, in one order
local          local          inserts at every node, which stay there        acknowledged rows exist, refused do not
transactions   synchronous    reads and appends, with waits between them     serialisable
```
"""

from __future__ import annotations

from typing import Final

from box.testing.simulation.object_workloads import ListWorkload, RegisterWorkload, UniqueWorkload
from box.testing.simulation.row_workloads import (
    AsyncWorkload,
    BankWorkload,
    LocalWorkload,
    SetWorkload,
    TokenWorkload,
)
from box.testing.simulation.transaction_workload import TransactionWorkload
from box.testing.simulation.workload import Workload

WORKLOADS: Final[dict[str, type[Workload]]] = {
    workload.name: workload
    for workload in (
        RegisterWorkload,
        ListWorkload,
        UniqueWorkload,
        BankWorkload,
        SetWorkload,
        AsyncWorkload,
        TokenWorkload,
        LocalWorkload,
        TransactionWorkload,
    )
}
