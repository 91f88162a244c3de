"""JSON paths inside tuples: `a.b[1]`, `[2]["key"]`, `[*]`.

A path is a tuple of steps: an `int` is an array index (0-based; in the text it is 1-based), a `str` a map key,
`ANY_INDEX` stands for `[*]`. Positions in errors are 1-based and count characters, as Tarantool counts them.
"""

from __future__ import annotations

from typing import Any, Final

ANY_INDEX: Final = None

Step = int | str | None
Path = tuple[Step, ...]


class PathError(ValueError):
    """A path that is malformed at `position`; `steps` are those before it."""

    def __init__(self, position: int) -> None:
        super().__init__(f"invalid JSON in position {position}")
        self.position = position


class PathLexer:
    """Reads a path step by step, so that a caller can report a missing field before a later syntax error."""

    __slots__ = ("pos", "text")

    def __init__(self, text: str, pos: int = 0) -> None:
        self.text = text
        self.pos = pos

    @property
    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def next(self) -> Step:
        """Return the next step; the caller checks `at_end` first. Raises PathError."""
        text, pos = self.text, self.pos
        if text[pos] == "[":
            return self._bracket()
        if text[pos] == ".":
            if pos + 1 == len(text):
                raise PathError(pos + 2)
            self.pos = pos + 1
        elif pos != 0:
            raise PathError(pos + 1)
        return self._identifier()

    def _bracket(self) -> Step:
        text, pos = self.text, self.pos + 1
        if pos == len(text):
            raise PathError(pos)
        step: Step
        if text[pos] in "\"'":
            step, pos = self._quoted(pos)
        elif text[pos] == "*":
            step, pos = ANY_INDEX, pos + 1
        else:
            step, pos = self._index(pos)
        if pos == len(text) or text[pos] != "]":
            raise PathError(pos + 1)
        self.pos = pos + 1
        return step

    def _quoted(self, pos: int) -> tuple[str, int]:
        end = self.text.find(self.text[pos], pos + 1)
        if end < 0:
            raise PathError(len(self.text) + 1)
        if end == pos + 1:
            raise PathError(end + 1)
        return self.text[pos + 1 : end], end + 1

    def _index(self, pos: int) -> tuple[int, int]:
        end = pos
        while end < len(self.text) and self.text[end] in "0123456789":
            end += 1
        if end == pos or int(self.text[pos:end]) < 1:
            raise PathError(pos + 1)
        return int(self.text[pos:end]) - 1, end

    def _identifier(self) -> str:
        text, start = self.text, self.pos
        if not (text[start].isalpha() or text[start] == "_"):
            raise PathError(start + 1)
        end = start + 1
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        self.pos = end
        return text[start:end]


def parse_path(text: str) -> Path:
    """Return all steps of a path. Raises PathError."""
    lexer = PathLexer(text)
    steps = []
    while not lexer.at_end:
        steps.append(lexer.next())
    return tuple(steps)


def parse_field_path(text: str) -> Path:
    """Return all steps of a path that begins with a field of a tuple. Raises PathError.

    Tarantool parses the text after the field as a separate path, which may begin without a dot: `[2]car.color`.
    """
    if not text:
        return ()
    lexer = PathLexer(text)
    field = lexer.next()
    return (field, *parse_path(text[lexer.pos :]))


def path_text(steps: Path) -> str:
    """Return the canonical text of a path: `[3]["FIO"]["fname"]`."""
    return "".join(
        "[*]" if step is None else f'["{step}"]' if isinstance(step, str) else f"[{step + 1}]" for step in steps
    )


def follow(value: Any, steps: Path) -> Any:
    """Return the value at the path, or None if the path leads nowhere."""
    for step in steps:
        if type(step) is int:
            if type(value) is not list or step >= len(value):
                return None
            value = value[step]
        elif type(value) is dict:
            value = value.get(step)
        else:
            return None
    return value
