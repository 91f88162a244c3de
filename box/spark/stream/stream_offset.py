"""The position of a stream in the log, in the form in which Spark keeps it in a checkpoint.

```
{"vclock": "{1: 120, 2: 7}", "source": "<uuid>"}
```

`vclock` covers the rows that the stream has returned. `source` is the UUID of the instance whose directory is read, or
of the replica set of the node that is followed, because all its members have the same rows.
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
    """A position of a stream; `vclock` must not be changed."""

    vclock: VClock
    source: UUID

    def to_json(self) -> dict[str, str]:
        """Return the position as a JSON object; equal positions have equal texts."""
        return {"vclock": str(self.vclock), "source": str(self.source)}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Return the position of a checkpoint.

        Raises:
            BoxError: ILLEGAL_PARAMS, the checkpoint is not one of such a stream.
        """
        try:
            return cls(VClock.parse(str(value["vclock"])), UUID(str(value["source"])))
        except (KeyError, ValueError, TypeError):
            raise illegal_params(f"the checkpoint holds no place in a log: {dict(value)}") from None
