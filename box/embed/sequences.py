"""Sequences: `await node.schema.create_sequence("ids")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from box.embed.embedding import Embedding


class SequenceHandle:
    """A sequence of an embedded node: gives numbers, each once.

    An index takes its keys from one with `create_index("pk", sequence="ids")`.

    Raises:
        SchemaError: NO_SUCH_SEQUENCE, it is not there any more.
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
        """Give the next number.

        Raises:
            ClientError: SEQUENCE_OVERFLOW, there is none left.
        """
        return int(await self._run("next"))

    async def current(self) -> int:
        """Give the number that `next` has given last.

        Raises:
            ClientError: SEQUENCE_NOT_STARTED, it has given none.
        """
        return int(await self._run("current"))

    async def set(self, value: int) -> None:
        """Go on behind `value`."""
        await self._run("set", value)

    async def reset(self) -> None:
        """Begin again."""
        await self._run("reset")

    async def drop(self) -> None:
        """Drop the sequence.

        Raises:
            SchemaError: DROP_SEQUENCE, an index uses it.
        """
        await self._run("drop")
