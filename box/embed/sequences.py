"""Sequences: `await node.schema.create_sequence("ids")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.embed.arguments import checked_integer

if TYPE_CHECKING:
    from box.embed.embedding import Embedding


class SequenceHandle:
    """A sequence of an embedded node; it returns each number once.

    `create_index("pk", sequence="ids")` makes an index take its keys from a sequence.

    Raises:
        SchemaError: NO_SUCH_SEQUENCE, the sequence no longer exists.
    """

    def __init__(self, embedding: Embedding, name: str) -> None:
        self._embedding = embedding
        self.name = name

    def __repr__(self) -> str:
        return f"<sequence {self.name!r}>"

    async def _run(self, method: str, *args: Any) -> Any:
        source = f"""
            local name = ...
            local found = box.sequence[name] or box.error(box.error.NO_SUCH_SEQUENCE, name)
            return found:{method}(select(2, ...))"""
        return await self._embedding.eval(source, self.name, *args)

    async def next(self) -> int:
        """Return the next number.

        Raises:
            ClientError: SEQUENCE_OVERFLOW, the numbers are used up.
        """
        return int(await self._run("next"))

    async def current(self) -> int:
        """Return the number that `next` returned last.

        Raises:
            ClientError: SEQUENCE_NOT_STARTED, `next` has not been called yet.
        """
        return int(await self._run("current"))

    async def set(self, value: int) -> None:
        """Let `next` continue after `value`.

        Raises:
            TypeError: the value is not an integer.
        """
        await self._run("set", checked_integer("value", value))

    async def reset(self) -> None:
        """Let `next` begin with `start` again, the first number of the sequence."""
        await self._run("reset")

    async def drop(self) -> None:
        """Drop the sequence.

        Raises:
            SchemaError: DROP_SEQUENCE, an index uses the sequence.
        """
        await self._run("drop")
