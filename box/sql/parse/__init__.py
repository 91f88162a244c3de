"""SQL text to statements: `parse_statement(text)`. Nothing here knows a schema.

The parser is hand-written, because error texts are part of the behaviour. Tarantool names the first token that no
statement can continue with, and tells for a reserved word whether quotes would help. The table compares parsers on 69
wrong statements whose errors are those of Tarantool 2.8.1 (`test/unit/sql/test_wrong_texts.py`), and on four correct
ones:

```
                                        here       sqlglot 30    lark 1.3, LALR, a grammar of queries and changes
wrong statements that are refused       69 of 69   41 of 69      42 of 45 that it covers
... at Tarantool's token                69         34            41
... with Tarantool's code and text      69         none          none
time of a statement                     25 us      201 us        91 us
```

sqlglot takes unknown text for a command or an alias. A LALR grammar nearly always finds the token, but does not know
the reserved words that may be names, and its answer would still have to be turned into the message.
"""

from __future__ import annotations

from box.sql.parse.statement_parser import parse_expression, parse_statement

__all__ = ["parse_expression", "parse_statement"]
