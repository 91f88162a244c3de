"""The position of a parser in its tokens, and the errors for a token that does not fit.

Tarantool's parser is driven by tables and reports the first token that no statement can continue with. Its error is
`Syntax error at line 1 near 'x'` or, for a reserved word, advice to quote it. The advice is given if one of certain
tokens
(names, brackets, operators) came before, at a place where an optional part ended. `_is_warned` tracks that.
"""

from __future__ import annotations

from typing import Final, NoReturn

from box.errors import BoxError, ErrorCode, client_error
from box.schema.identifier import check_identifier
from box.schema.ids import NAME_MAX, SHOWN_NAME_MAX
from box.sql.parse.tokens import FALLBACK, Token, name_of, tokenize, unknown

_EARLY: Final = frozenset(
    """
    ID #end ; EXPLAIN OR AND NOT IS MATCH LIKE BETWEEN IN != = > <= < >= ESCAPE & | << >> + - * / % || COLLATE ~ START
    TRANSACTION COMMIT ROLLBACK SAVEPOINT TO CREATE TABLE EXISTS ( ) WITH #string , INDEXED
""".split()
)
"""Tokens that Tarantool's grammar checks before the words that may also be names."""


def check_new_name(name: str) -> str:
    """Return a name that a statement gives to something.

    Raises:
        ClientError: IDENTIFIER, it is too long, empty or not printable.
    """
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) > NAME_MAX:
        raise client_error(ErrorCode.IDENTIFIER, raw[:SHOWN_NAME_MAX].decode("utf-8", "surrogateescape"))
    check_identifier(name)
    return name


class TokenReader:
    """Reads tokens one after another. The parsers of expressions, queries and statements derive from it."""

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
        """Return the kind of the token after the current one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)].kind

    def advance(self) -> Token:
        """Move to the next token. Returns the one passed."""
        passed = self.token
        self._at += 1
        self.token = self._tokens[self._at]
        if self.token.kind == "ILLEGAL":
            raise unknown(self.token)
        return passed

    def at(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def take(self, kind: str) -> bool:
        """Pass the token if it is of this kind. Returns whether it was."""
        if self.token.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str) -> Token:
        """Pass a token of this kind.

        Raises:
            ClientError: SQL_SYNTAX_NEAR_TOKEN, SQL_KEYWORD_IS_RESERVED.
        """
        if self.token.kind != kind:
            self.fail()
        return self.advance()

    def take_words(self, *kinds: str) -> bool:
        """Pass several tokens if the first of them is there. Returns whether it was.

        Raises:
            ClientError: the others do not follow.
        """
        if self.token.kind != kinds[0]:
            return False
        for kind in kinds:
            self.expect(kind)
        return True

    def option_ended(self) -> None:
        """Note that an optional part is absent here; the module describes why that matters."""
        if self.token.kind in _EARLY or self.token.kind in FALLBACK:
            self._is_warned = True

    def advise(self) -> None:
        """Note that the grammar has an optional part here, whatever token follows; so an error may advise to quote."""
        self._is_warned = True

    @property
    def is_name(self) -> bool:
        kind = self.token.kind
        return kind == "ID" or kind == "INDEXED" or kind in FALLBACK

    def name(self) -> str:
        """Pass a name. Returns it, in upper case unless quoted.

        Raises:
            ClientError: SQL_SYNTAX_NEAR_TOKEN, SQL_KEYWORD_IS_RESERVED.
        """
        if not self.is_name:
            self.fail()
        return self.checked(self.advance())

    def checked(self, token: Token) -> str:
        """Return the name that a token, the one before the current, stands for. Errors as those of `name`."""
        if token.is_reserved:
            # Tarantool has read one token more if its grammar also takes the word for a name.
            raise self._reserved(token, self.token.position if token.kind in FALLBACK else token.position)
        return name_of(token)

    def text_since(self, start: int) -> str:
        """Return the text from an offset to the end of the token before the current one."""
        return self.text[start : self._tokens[self._at - 1].end]

    def text_from(self, start: int) -> str:
        """Return the text from an offset to its end."""
        return self.text[start : self._tokens[-1].end]

    def fail(self) -> NoReturn:
        """Raise the error for the current token."""
        token = self.token
        if token.kind in _EARLY or token.kind in FALLBACK:
            self._is_warned = True
        if self._is_warned and token.is_reserved:
            raise self._reserved(token, self.token.position)
        raise client_error(ErrorCode.SQL_SYNTAX_NEAR_TOKEN, self.token.line, token.text)

    @staticmethod
    def _reserved(token: Token, position: int) -> BoxError:
        return client_error(ErrorCode.SQL_KEYWORD_IS_RESERVED, token.line, position, token.text, token.text)


def limit_exceeded(what: str, count: int, limit: int) -> BoxError:
    """Make the error of a statement with too many parts of one sort."""
    return client_error(ErrorCode.SQL_PARSER_LIMIT, what, count, limit)


def generic(text: str) -> BoxError:
    """Make an error of the parser with a text of its own."""
    return client_error(ErrorCode.SQL_PARSER_GENERIC, text)
