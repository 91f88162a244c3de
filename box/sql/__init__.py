"""SQL of Tarantool 2.8.1 over spaces: `box.sql.engine.Sql`, one for each node.

```
parse/      text -> sql_nodes                    sqlite_connection, space_table    SQLite, for which spaces are tables
query, expression_compiler, from_clause, calls   sql_nodes -> SQL for SQLite, with types, collations and rights checked
kinds, casts, operators, builtins, aggregates    values where SQLite's own would differ
row_changes, row_triggers, foreign_keys          INSERT, REPLACE, UPDATE, DELETE
pauses                                           turns of long queries
flat_calls                                       triggers that fire triggers, without deep stacks
pragmas, explain, user_functions                 PRAGMA, EXPLAIN, functions of Lua
advice                                           notes on errors, for programs in Python
table_rows, definer                              CREATE, DROP, ALTER as rows of system spaces
hooks                                            checks, views and triggers, for the dictionary
```
"""
