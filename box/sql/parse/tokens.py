"""Tokens of SQL.

```
word        a keyword (its kind is the word in upper case) or an unquoted name, kind ID
"x"         a quoted name, kind ID       'x'   #string      x'00'  #blob
12 0x1f     #integer                     1.5   #float       ? ?1 :a @a $a #1  #variable
operators   their own text               the end of the text: a semicolon unless there is one, and #end
```

As in Tarantool, the tokens of the end have the text of whatever stands last in the statement, for error texts. A line
ends at a line feed, unless other spaces stand before it.

Keywords, and which of them may be names, are those of Tarantool 2.8.1 (its manual, "SQL: reserved words").
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from box.errors import ErrorCode, client_error


class Token(NamedTuple):
    """A token: its start and end in the text, and the position that an error text shows, in bytes."""

    kind: str
    text: str
    line: int
    position: int
    start: int
    end: int

    @property
    def is_reserved(self) -> bool:
        return self.text.upper() in RESERVED


_GRAMMAR_RESERVED: Final = """
    ALL ALTER AND AS ASC BEGIN BETWEEN BOOL BOOLEAN BY CASE CHAR CHECK COLLATE COLUMN COMMIT CONSTRAINT CREATE CROSS
    DEFAULT DELETE DESC DISTINCT DOUBLE DROP EACH ELSE END ESCAPE EXCEPT EXISTS EXPLAIN FALSE FOR FOREIGN
    FROM FULL GROUP HAVING IF IMMEDIATE IN INDEX INNER INSERT INT INTEGER INTERSECT INTO IS JOIN LEADING BOTH TRAILING
    LEFT LIKE MATCH NATURAL NOT NULL NUMBER OF ON OR ORDER OUTER PARTIAL PRAGMA PRIMARY RECURSIVE REFERENCES RELEASE
    RENAME REPLACE RIGHT ROLLBACK ROW SAVEPOINT SCALAR SELECT SET SIMPLE START STRING TABLE TEXT THEN TO TRANSACTION
    TRIGGER TRIM TRUE TRUNCATE UNION UNIQUE UNKNOWN UNSIGNED UPDATE USING VALUES VARBINARY VARCHAR VIEW WHEN WHERE WITH
""".split()
_UNUSED_RESERVED: Final = """
    ANALYZE ANY ASENSITIVE BLOB CALL COLUMN_REF CONDITION CONNECT CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
    CURRENT_USER CURSOR DATE DATETIME DECIMAL DECLARE DENSE_RANK DESCRIBE DETERMINISTIC ELSEIF FETCH FLOAT FUNCTION GET
    GRANT INOUT INSENSITIVE ITERATE LEAVE LOCALTIME LOCALTIMESTAMP LOOP NUM NUMERIC OUT OVER PARTITION PRECISION
    PROCEDURE RANGE RANK READS REAL REPEAT RESIGNAL RETURN REVOKE ROWS ROW_NUMBER SENSITIVE SIGNAL SPECIFIC SQL SYSTEM
    USER WHENEVER WHILE
""".split()
_NAME_RESERVED: Final = ("BINARY", "CHARACTER", "SMALLINT")
"""Reserved words that raise a special error only in the definition of a name or as the name of a table."""
_FREE: Final = """
    ABORT ACTION ADD AFTER AUTOINCREMENT BEFORE CASCADE CAST CONFLICT DEFERRABLE DEFERRED DISABLE ENABLE ENGINE FAIL
    IGNORE INDEXED INITIALLY INSTEAD KEY LIMIT NO OFFSET PLAN QUERY RAISE REGEXP RESTRICT SESSION
""".split()
RESERVED: Final = frozenset((*_GRAMMAR_RESERVED, *_UNUSED_RESERVED, *_NAME_RESERVED))
KEYWORDS: Final = frozenset((*_GRAMMAR_RESERVED, *_UNUSED_RESERVED, *_FREE))
USED_KEYWORDS: Final = frozenset((*_GRAMMAR_RESERVED, *_FREE))
"""Keywords of statements that are not reserved."""
FALLBACK: Final = frozenset(
    """
    ABORT ACTION ADD AFTER BEFORE CASCADE CONFLICT DEFERRED END ENGINE FAIL IGNORE INITIALLY INSTEAD NO
    MATCH PLAN QUERY KEY OFFSET RAISE RELEASE REPLACE RESTRICT RENAME IF ENABLE DISABLE
""".split()
)
"""Keywords that are names wherever they cannot be keywords. INDEXED is such a keyword, too, with additional rules."""
_KINDS = {"BOOL": "BOOLEAN", "UNKNOWN": "NULL", "REGEXP": "LIKE", "==": "=", "<>": "!="}
_KINDS |= dict.fromkeys(("CROSS", "INNER", "LEFT", "NATURAL", "OUTER", "RIGHT"), "JOIN_KW")

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\f\r\v\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]
              [ \t\n\f\r\v\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]* | /\*(?=.).*?(?:\*/|\Z))
  | (?P<feed>\n | --[^\n]*\n)
  | (?P<comment>--[^\n]*\Z)
  | (?P<blob>[xX]'[^']*(?:'|\Z))
  | (?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*)
  | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<integer>0[xX][0-9a-fA-F]+|[0-9]+)
  | (?P<string>'(?:[^']|'')*'(?!'))
  | (?P<quoted>"(?:[^"]|"")*"(?!"))
  | (?P<variable>\?[0-9]*|[:@$#][A-Za-z0-9_$\u0080-\U0010ffff]+)
  | (?P<operator>\|\||<<|>>|<=|>=|<>|!=|==|[-+*/%=<>|&~(),.;])
    """,
    re.VERBOSE | re.DOTALL,
)
_ID_CHAR: Final = re.compile(r"[A-Za-z0-9_$\u0080-\U0010ffff]+")
_HEX: Final = re.compile(r"[xX]'(?:[0-9a-fA-F]{2})*'")
_KIND_OF_GROUP: Final = {
    "string": "#string",
    "quoted": "ID",
    "variable": "#variable",
    "integer": "#integer",
    "float": "#float",
    "blob": "#blob",
}
MAX_LENGTH: Final = 1_000_000_000
"""The greatest length of a statement, in bytes."""


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text. The last is #end, or of kind ILLEGAL: `unknown` makes its error."""
    tokens: list[Token] = []
    line, position, at = 1, 1, 0
    nul = text.find("\0")
    if nul >= 0:
        text = text[:nul]
    word = ""
    size, match, length = len(text), _TOKEN.match, len if text.isascii() else _byte_count
    while at < size:
        found = match(text, at)
        if found is None:
            tokens.append(Token("ILLEGAL", _illegal(text, at), line, position, at, size))
            return tokens
        group, end = found.lastgroup, found.end()
        word = text[at:end]
        if group == "feed":
            line, position, at = line + 1, 1, end
            continue
        if group == "word":
            upper = word.upper()
            kind = _KINDS.get(upper, upper) if upper in KEYWORDS else "ID"
            tokens.append(Token(kind, word, line, position, at, end))
        elif group == "operator":
            tokens.append(Token(_KINDS.get(word, word), word, line, position, at, end))
        elif group not in ("space", "comment"):
            kind = _KIND_OF_GROUP[group or ""]
            is_decimal = kind in ("#integer", "#float") and word[1:2] not in ("x", "X")
            if is_decimal and (more := _ID_CHAR.match(text, end)):
                word, kind = word + more.group(), "ILLEGAL"
            elif kind == "#blob" and not _HEX.fullmatch(word):
                kind = "ILLEGAL"
            tokens.append(Token(kind, word, line, position, at, end))
            if kind == "ILLEGAL":
                return tokens
        position += length(text[at:end])
        at = end
    if tokens and tokens[-1].kind != ";":
        tokens.append(Token(";", word, line, position, size, size))
        position += length(word)
    tokens.append(Token("#end", word if tokens else "", line, position, size, size))
    return tokens


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _illegal(text: str, at: int) -> str:
    return text[at:] if text[at] in "'\"" else text[at]


def unknown(token: Token) -> Exception:
    """Make the error `At line 1 at or near position 8: unrecognized token '!'`."""
    return client_error(ErrorCode.SQL_UNKNOWN_TOKEN, token.line, token.position, token.text)


def name_of(token: Token) -> str:
    """Return the name that a token stands for: an ID, or a keyword that may be a name. Upper case unless quoted."""
    text = token.text
    if text.startswith('"'):
        return text[1:-1].replace('""', '"')
    return text.upper()
