"""The place of a stream in the log, in the form that Spark keeps in its checkpoint.

```
{"vclock": "{1: 120, 2: 7}", "source": "<uuid>"}
```

`vclock` covers the rows that the stream has passed. `source` is the instance whose directory is read, or the replica
set of the node that is followed: any member of it has the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from box.errors import illegal_params
from box.wire.vclock import VClock


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """One place; `vclock` is not to be changed."""

    vclock: VClock
    source: UUID

    def to_json(self) -> dict[str, str]:
        """The same place has the same text."""
        return {"vclock": str(self.vclock), "source": str(self.source)}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Raises ILLEGAL_PARAMS for a checkpoint of something else."""
        try:
            return cls(VClock.parse(str(value["vclock"])), UUID(str(value["source"])))
        except (KeyError, ValueError, TypeError):
            raise illegal_params(f"the checkpoint holds no place in a log: {dict(value)}") from None
