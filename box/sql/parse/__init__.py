"""SQL text to statements: `parse_statement(text)`. Nothing here knows a schema.

The parser is hand-written, because the text of an error is part of the language: Tarantool names the first token that
no statement can go on with, and tells for a reserved word whether quotes would help. Measured on 69 wrong statements
whose errors Tarantool 2.8.1 has told (`test/unit/sql/test_wrong_texts.py`), and on four plain ones that are right:

```
                                        here       sqlglot 30    lark 1.3, LALR, a grammar of queries and changes
wrong statements that are refused       69 of 69   41 of 69      42 of 45 that it covers
... at Tarantool's token                69         34            41
... with Tarantool's code and text      69         none          none
time of a statement                     25 us      201 us        91 us
```

sqlglot takes what it does not know as a command or an alias. A LALR grammar finds the token nearly always, but knows
nothing of reserved words that stand for names, and its answer has to be turned into the message all the same.
"""

from __future__ import annotations

from box.sql.parse.statement_parser import parse_expression, parse_statement

__all__ = ["parse_expression", "parse_statement"]
