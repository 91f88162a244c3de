"""The bar below the prompt: signature and one-line help of the function at the cursor, or the progress of long work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from prompt_toolkit.formatted_text import StyleAndTextTuples

from console.interactive.completer import Ask
from console.interactive.cursor import look
from console.interactive.signatures import Signature, known
from lua.text_console.text_table import cut, text_width


class HelpBar:
    """The content of the bar.

    `update` receives the text before the cursor; `changed` is called when the answer has come. Only one question is
    asked at a time; meanwhile only the newest text is kept.
    """

    def __init__(self, ask: Ask, changed: Callable[[], None]) -> None:
        self._ask = ask
        self._changed = changed
        self._cache: dict[tuple[str, ...], Signature | None] = {}
        self._wanted: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._shown: tuple[Signature, int] | None = None

    def forget(self) -> None:
        """Show nothing, because the statement was sent, and drop known signatures, because it may change functions."""
        # A question that waits fills the old cache, and `_answer` drops what it learns. It is not cancelled, because a
        # text console's connection could not tell its answer from the next one.
        self._cache = {}
        self._shown = self._wanted = None
        self._changed()

    def update(self, text: str) -> None:
        self._wanted = text
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._answer(), name="help bar")

    async def _answer(self) -> None:
        while self._wanted is not None:
            text, self._wanted = self._wanted, None
            cache = self._cache
            found = await self._find(text)
            if cache is self._cache and found != self._shown:
                self._shown = found
                self._changed()

    async def _find(self, text: str) -> tuple[Signature, int] | None:
        if text.startswith("\\"):
            return None
        place = look(text)
        if place.text is None and place.partial and place.is_known and place.path:
            signature = await self._signature((*place.path, place.partial))
            if signature is not None:
                return signature, -1
        call = place.call
        if call is None:
            return None
        signature = await self._signature(call.function)
        return None if signature is None else (signature, call.argument)

    async def _signature(self, path: tuple[str, ...]) -> Signature | None:
        cache = self._cache
        if path not in cache:
            found = _signature_of(await self._ask("signature", list(path)))
            # Many functions of `box` exist only after box.cfg.
            cache[path] = found or known().get(".".join(path))
        return cache[path]

    def shown(self, width: int) -> StyleAndTextTuples | None:
        """Return the line to show, or None."""
        if self._shown is None:
            return None
        signature, argument = self._shown
        parameters, span = signature.parameters, signature.argument(argument) if argument >= 0 else None
        fragments: StyleAndTextTuples = [("class:bar.name", signature.name)]
        if span is None:
            fragments.append(("", parameters))
        else:
            fragments.append(("", parameters[: span[0]]))
            fragments.append(("class:bar.parameter", parameters[span[0] : span[1]]))
            fragments.append(("", parameters[span[1] :]))
        used = text_width(signature.name + parameters)
        note = "  ".join(part for part in (signature.help, signature.place) if part)
        if note and width - used > 6:  # what is left must have room for more than a mark of omission
            fragments.append(("class:bar.help", "  " + cut(note, width - used - 3)))
        return fragments


def _signature_of(answer: Any) -> Signature | None:
    """Make a signature of the node's answer: our text for a function that every node has, otherwise its parameters."""
    if not isinstance(answer, (list, tuple)) or not answer:
        return None
    name, parameters, comment, place = (*answer, None, None, None)[:4]
    if parameters is None:
        return None
    if str(name) in known():
        return known()[str(name)]
    if not isinstance(parameters, (list, tuple)):
        return None
    return Signature(str(name), f"({', '.join(map(str, parameters))})", str(comment or ""), str(place or ""))
