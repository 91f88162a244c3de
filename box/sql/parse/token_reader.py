"""The place of a parser in its tokens, and the errors of a token that does not fit.

Tarantool's parser is a table-driven one: it reports the first token that no statement can go on with, either as
`Syntax error at line 1 near 'x'` or, for a reserved word, with the advice to quote it. Which of the two depends on
whether one of certain tokens (names, brackets, operators) was met before at a place where something optional ended;
`_is_warned` follows that.
"""

from __future__ import annotations

from typing import Final, NoReturn

from box.errors import BoxError, ErrorCode, client_error
from box.sql.parse.tokens import FALLBACK, Token, name_of, tokenize, unknown

_EARLY: Final = frozenset(
    """
    ID #end ; EXPLAIN OR AND NOT IS MATCH LIKE BETWEEN IN != = > <= < >= ESCAPE & | << >> + - * / % || COLLATE ~ START
    TRANSACTION COMMIT ROLLBACK SAVEPOINT TO CREATE TABLE EXISTS ( ) WITH #string , INDEXED
""".split()
)
"""Tokens that Tarantool's grammar names before its list of words that may be names."""


class TokenReader:
    """Tokens one after another. Parsers of expressions, queries and statements build on each other from here."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._is_warned = False
        self.parameters: list[str | None] = []
        self.allows_parameters = True
        self.token = self._tokens[0]
        if self.token.kind == "ILLEGAL":
            raise unknown(self.token)

    @property
    def kind(self) -> str:
        return self.token.kind

    def peek(self) -> str:
        """The kind of the token after the present one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)].kind

    def advance(self) -> Token:
        """Go on to the next token; gives the one passed."""
        passed = self.token
        self._at += 1
        self.token = self._tokens[self._at]
        if self.token.kind == "ILLEGAL":
            raise unknown(self.token)
        return passed

    def at(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def take(self, kind: str) -> bool:
        """Pass the token if it is of this kind."""
        if self.token.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str) -> Token:
        """Pass a token of this kind. SQL_SYNTAX_NEAR_TOKEN, SQL_KEYWORD_IS_RESERVED."""
        if self.token.kind != kind:
            self.fail()
        return self.advance()

    def take_words(self, *kinds: str) -> bool:
        """Pass several tokens if the first is there."""
        if self.token.kind != kinds[0]:
            return False
        for kind in kinds:
            self.expect(kind)
        return True

    def option_ended(self) -> None:
        """Something optional is not here; see the module's text."""
        if self.token.kind in _EARLY:
            self._is_warned = True

    @property
    def is_name(self) -> bool:
        kind = self.token.kind
        return kind == "ID" or kind == "INDEXED" or kind in FALLBACK

    def name(self) -> str:
        """Pass a name: in upper case unless quoted."""
        if not self.is_name:
            self.fail()
        token = self.advance()
        if token.is_reserved and not token.text.startswith('"'):
            raise self._reserved(token, token.position)
        return name_of(token)

    def text_since(self, start: int) -> str:
        """The text from an offset up to the end of the token before the present one."""
        return self.text[start : self._tokens[self._at - 1].end]

    def text_from(self, start: int) -> str:
        """The text from an offset to its end."""
        return self.text[start : self._tokens[-1].end]

    def fail(self) -> NoReturn:
        """Report the present token."""
        token = self.token
        if token.kind in _EARLY:
            self._is_warned = True
        if token.kind == "#end":
            token = self._last(token)
        if self._is_warned and token.is_reserved and not token.text.startswith('"'):
            raise self._reserved(token, self.token.position)
        raise client_error(ErrorCode.SQL_SYNTAX_NEAR_TOKEN, self.token.line, token.text)

    def _last(self, end: Token) -> Token:
        """The last thing before the end: space counts."""
        last = self._tokens[self._at - 1] if self._at else end
        rest = self.text[last.end : end.end]
        if not rest:
            return last
        tail = "\n" if rest.endswith("\n") else rest.rsplit("\n", 1)[-1]
        return Token("SPACE", tail, end.line, end.position, last.end, end.end)

    @staticmethod
    def _reserved(token: Token, position: int) -> BoxError:
        return client_error(ErrorCode.SQL_KEYWORD_IS_RESERVED, token.line, position, token.text, token.text)


def generic(text: str) -> BoxError:
    """An error of the parser whose text says it all."""
    return client_error(ErrorCode.SQL_PARSER_GENERIC, text)
