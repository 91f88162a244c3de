"""Measures ten SQL queries like those of TPC-H on Lunabox, Tarantool and SQLite: `python -m test.bench.sql_queries`.

The data is generated from a seed; the table of items has 100,000 rows. All numbers are sums of powers of two, so that
sums are exact and the three programs must return equal rows, which is checked. Queries run inside the process, without
a network. The table has the least processor times of all rounds, in ms: for tables that have not changed since the last
query and, with `--changed`, for the first query after one row of each table was replaced, and after two fifths were.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from test.bench.__main__ import compiled_modules, tarantool_command

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_ITEMS = 100_000
_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
_TYPES = ("PROMO BRUSHED TIN", "PROMO PLATED STEEL", "ECONOMY ANODIZED BRASS", "STANDARD POLISHED COPPER")
_CONTAINERS = ("SM CASE", "SM BOX", "MED BAG", "MED BOX", "LG CASE", "LG BOX")

_SCHEMA = (
    "CREATE TABLE region (r_key INT PRIMARY KEY, r_name TEXT)",
    "CREATE TABLE nation (n_key INT PRIMARY KEY, n_name TEXT, n_region INT)",
    "CREATE TABLE supplier (s_key INT PRIMARY KEY, s_name TEXT, s_nation INT)",
    "CREATE TABLE part (p_key INT PRIMARY KEY, p_type TEXT, p_container TEXT, p_size INT)",
    "CREATE TABLE customer (c_key INT PRIMARY KEY, c_name TEXT, c_nation INT, c_segment TEXT)",
    "CREATE TABLE orders (o_key INT PRIMARY KEY, o_customer INT, o_date TEXT, o_priority TEXT)",
    "CREATE TABLE item (i_order INT, i_line INT, i_part INT, i_supplier INT, i_quantity INT, i_price DOUBLE, "
    "i_discount DOUBLE, i_tax DOUBLE, i_flag TEXT, i_shipped TEXT, i_committed TEXT, i_received TEXT, i_mode TEXT, "
    "PRIMARY KEY (i_order, i_line))",
    "CREATE INDEX by_customer ON orders (o_customer)",
    "CREATE INDEX by_date ON orders (o_date)",
    "CREATE INDEX by_part ON item (i_part)",
)
_QUERIES = {
    "1 pricing summary": "SELECT i_flag, COUNT(*), SUM(i_quantity), SUM(i_price), SUM(i_price * (1 - i_discount)), "
    "SUM(i_price * (1 - i_discount) * (1 + i_tax)), AVG(i_discount) FROM item WHERE i_shipped <= '1998-09-02' "
    "GROUP BY i_flag ORDER BY i_flag",
    "3 shipping priority": "SELECT o_key, SUM(i_price * (1 - i_discount)) AS revenue, o_date FROM customer "
    "JOIN orders ON o_customer = c_key JOIN item ON i_order = o_key WHERE c_segment = 'BUILDING' "
    "AND o_date < '1995-03-15' AND i_shipped > '1995-03-15' GROUP BY o_key, o_date "
    "ORDER BY revenue DESC, o_key DESC LIMIT 10",
    "4 order priority": "SELECT o_priority, COUNT(*) FROM orders WHERE o_date >= '1993-07-01' "
    "AND o_date < '1994-07-01' AND o_key IN (SELECT i_order FROM item WHERE i_committed < i_received) "
    "GROUP BY o_priority ORDER BY o_priority",
    "5 local suppliers": "SELECT n_name, SUM(i_price * (1 - i_discount)) AS revenue FROM region "
    "JOIN nation ON n_region = r_key JOIN customer ON c_nation = n_key JOIN orders ON o_customer = c_key "
    "JOIN item ON i_order = o_key JOIN supplier ON s_key = i_supplier AND s_nation = n_key WHERE r_name = 'ASIA' "
    "AND o_date >= '1994-01-01' AND o_date < '1996-01-01' GROUP BY n_name ORDER BY revenue DESC",
    "6 revenue change": "SELECT SUM(i_price * i_discount) FROM item WHERE i_shipped >= '1994-01-01' "
    "AND i_shipped < '1995-01-01' AND i_discount BETWEEN 0.03 AND 0.08 AND i_quantity < 24",
    "10 returned items": "SELECT c_key, c_name, SUM(i_price * (1 - i_discount)) AS revenue, n_name FROM orders "
    "JOIN customer ON c_key = o_customer JOIN nation ON n_key = c_nation JOIN item ON i_order = o_key "
    "WHERE o_date >= '1993-10-01' AND o_date < '1994-04-01' AND i_flag = 'R' GROUP BY c_key, c_name, n_name "
    "ORDER BY revenue DESC, c_key DESC LIMIT 20",
    "12 shipping modes": "SELECT i_mode, SUM(CASE WHEN o_priority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END), "
    "SUM(CASE WHEN o_priority IN ('1-URGENT', '2-HIGH') THEN 0 ELSE 1 END) FROM item JOIN orders ON o_key = i_order "
    "WHERE i_mode IN ('MAIL', 'SHIP') AND i_committed < i_received AND i_shipped < i_committed "
    "AND i_received >= '1994-01-01' AND i_received < '1995-01-01' GROUP BY i_mode ORDER BY i_mode",
    "14 promotion": "SELECT SUM(CASE WHEN p_type LIKE 'PROMO%' THEN i_price * (1 - i_discount) ELSE 0.0 END), "
    "SUM(i_price * (1 - i_discount)) FROM item JOIN part ON p_key = i_part "
    "WHERE i_shipped >= '1995-09-01' AND i_shipped < '1996-03-01'",
    "18 large orders": "SELECT c_name, c_key, o_key, o_date, SUM(i_quantity) FROM item JOIN orders ON o_key = i_order "
    "JOIN customer ON c_key = o_customer WHERE o_key IN (SELECT i_order FROM item GROUP BY i_order "
    "HAVING SUM(i_quantity) > 250) GROUP BY c_name, c_key, o_key, o_date ORDER BY o_key LIMIT 100",
    "19 discounted": "SELECT SUM(i_price * (1 - i_discount)) FROM part JOIN item ON i_part = p_key WHERE "
    "(p_container IN ('SM CASE', 'SM BOX') AND i_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5) OR "
    "(p_container IN ('MED BAG', 'MED BOX') AND i_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10)",
}
"""Queries by name, which begins with the number of the similar query of TPC-H."""

_CHANGES = {0.0: "", 1e-9: ", a row changed", 0.4: ", many changed"}
"""How columns of the table name the share of the rows that was replaced in each table before a query."""

Times = dict[str, float]
"""The processor time of each query, in seconds."""


def _day(number: int) -> str:
    """Return the date of the n-th day since 1992 as text, in a calendar whose months have 28 days."""
    return f"{1992 + number // 336}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}"


def _tables(items: int, seed: int) -> dict[str, list[list[Any]]]:
    """Generate the rows of all tables, with at least `items` items."""
    draw = random.Random(seed)
    orders, customers, parts, suppliers = items // 4, items // 40, items // 30, items // 500
    tables: dict[str, list[list[Any]]] = {
        "REGION": [[number, name] for number, name in enumerate(_REGIONS)],
        "NATION": [[number, f"NATION {number:02}", number % 5] for number in range(25)],
        "SUPPLIER": [[number, f"Supplier {number}", draw.randrange(25)] for number in range(suppliers)],
        "PART": [
            [number, draw.choice(_TYPES), draw.choice(_CONTAINERS), draw.randrange(1, 51)] for number in range(parts)
        ],
        "CUSTOMER": [
            [number, f"Customer {number}", draw.randrange(25), draw.choice(_SEGMENTS)] for number in range(customers)
        ],
        "ORDERS": [],
        "ITEM": [],
    }
    while len(tables["ITEM"]) < items:
        number, day = len(tables["ORDERS"]), draw.randrange(2200)
        tables["ORDERS"].append([number, draw.randrange(customers), _day(day), draw.choice(_PRIORITIES)])
        for line in range(draw.randrange(1, 2 * items // orders)):
            shipped, committed = day + draw.randrange(1, 120), day + draw.randrange(30, 90)
            tables["ITEM"].append(
                [
                    *(number, line, draw.randrange(parts), draw.randrange(suppliers), draw.randrange(1, 51)),
                    *(draw.randrange(900, 90_000) + 0.25, draw.randrange(1, 8) / 64, draw.randrange(1, 8) / 128),
                    *(draw.choice("ANR"), _day(shipped), _day(committed), _day(shipped + draw.randrange(1, 30))),
                    draw.choice(_MODES),
                ]
            )
    return tables


def _run(executable: list[str], directory: Path, rounds: int) -> tuple[dict[float, Times], dict[str, Any]]:
    """Run the queries in Lunabox or Tarantool; return the times, by the share of changed rows, and the rows of each
    query.
    """
    command = [*executable, str(_HERE / "sql_queries.lua"), str(directory), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=_ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    times: dict[float, Times] = {}
    for line in done.stdout.splitlines():
        name, changes, _, cpu = line.split("\t")
        _keep(times.setdefault(float(changes), {}), name, float(cpu))
    return times, json.loads((directory / "rows.json").read_text())


def _run_sqlite(tables: dict[str, list[list[Any]]], rounds: int) -> tuple[Times, dict[str, Any]]:
    """Run the queries in SQLite, in this process; return the times and the rows of each."""
    times: Times = {}
    rows: dict[str, Any] = {}
    connection = sqlite3.connect(":memory:")
    for statement in _SCHEMA:
        connection.execute(statement)
    for name, data in tables.items():
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(data[0]))})", data)
    for _ in range(rounds):
        for name, text in _QUERIES.items():
            cpu = time.process_time()
            rows[name] = [list(row) for row in connection.execute(text)]
            _keep(times, name, time.process_time() - cpu)
    return times, rows


def _keep(times: Times, name: str, cpu: float) -> None:
    """Keep the least time of all rounds."""
    times[name] = min(times.get(name, cpu), cpu)


def _check_rows(found: dict[str, dict[str, Any]]) -> None:
    """Fail if two programs give different rows."""
    for query in _QUERIES:
        first, *others = [(name, _rounded(rows[query])) for name, rows in found.items()]
        for name, rows in others:
            if not first[1] or rows != first[1]:
                raise SystemExit(f"{query}: {first[0]} gives {first[1][:3]}, {name} {rows[:3]}")


def _rounded(rows: list[list[Any]]) -> list[list[Any]]:
    """Round numbers to twelve digits: Lua's JSON keeps no more."""
    return [[float(f"{item:.12g}") if isinstance(item, int | float) else item for item in row] for row in rows]


def _table(times: dict[str, Times], ratios: list[tuple[str, str]]) -> str:
    """Show the times in columns, and the ratio of each of these pairs of columns."""
    heads = [*times, *(f"ratio{first.partition(',')[1]}{first.partition(',')[2]}" for first, _ in ratios)]
    lines = [f"| query | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for query in _QUERIES:
        cells = [f"{found[query] * 1e3:,.1f}" for found in times.values()]
        cells += [f"{times[first][query] / times[second][query]:.1f}" for first, second in ratios]
        lines.append(f"| {query} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.bench.sql_queries", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of rows")
    parser.add_argument("--rounds", type=int, default=3, help="how often each query runs")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the generated data")
    parser.add_argument("--changed", action="store_true", help="also queries that are the first after a change")
    args = parser.parse_args()
    changes = list(_CHANGES) if args.changed else [0.0]
    tables = _tables(int(_ITEMS * args.scale), args.seed)
    data = {
        "schema": _SCHEMA,
        "tables": [{"name": name, "rows": rows} for name, rows in tables.items()],
        "queries": [{"name": name, "text": text} for name, text in _QUERIES.items()],
        "changes": changes,
    }
    executables = {"this node": [sys.executable, "-m", "console"]}
    tarantool = tarantool_command()
    if tarantool:
        executables["Tarantool"] = list(tarantool)
    times: dict[str, Times] = {}
    rows: dict[str, dict[str, Any]] = {}
    with compiled_modules():
        for name, executable in executables.items():
            with tempfile.TemporaryDirectory(prefix="bench") as root:
                (Path(root) / "data.json").write_text(json.dumps(data))
                found, rows[name] = _run(executable, Path(root), args.rounds)
                times |= {f"{name}{_CHANGES[share]}": found[share] for share in changes}
    times["SQLite"], rows["SQLite"] = _run_sqlite(tables, args.rounds)
    _check_rows(rows)
    names = [(f"this node{_CHANGES[share]}", f"Tarantool{_CHANGES[share]}") for share in changes]
    print(_table(times, names if tarantool else []))


if __name__ == "__main__":
    main()
