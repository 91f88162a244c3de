"""The work of the campaigns "sql-kills" and "sql-damage": numbered steps on tables with constraints, and their model.

A step is a transaction that ends with its number in the table `progress`, or a change of the tables, after which the
number is written. What the tables have after a step depends on its number alone, so that the rows found after a kill or
a damage can be checked one by one.
"""

from __future__ import annotations

from typing import Any, Final

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode
from box.instance.node import Instance
from box.schema.ids import SpaceId
from test.soak.step_model import StepModel

_FAR: Final = 1_000_000
_KEPT: Final = 60
"""How many steps a customer is kept, so that tables stay small."""
TABLES: Final = (
    "CREATE TABLE customer (nr INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE,"
    " name STRING NOT NULL UNIQUE,"
    " credit INTEGER DEFAULT 100 CONSTRAINT credit_is_positive CHECK (credit >= 0))",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, total INTEGER DEFAULT 7 CHECK (total > 0),"
    " customer INTEGER NOT NULL REFERENCES customer (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE INDEX by_customer ON orders (customer)",
    "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, note STRING)",
    "CREATE TRIGGER arrived AFTER INSERT ON customer FOR EACH ROW"
    " BEGIN INSERT INTO audit VALUES (NULL, 'new ' || NEW.name); END",
    "CREATE TRIGGER gone AFTER DELETE ON customer FOR EACH ROW"
    " BEGIN INSERT INTO audit VALUES (NULL, 'gone ' || OLD.name); END",
    "CREATE VIEW sums (customer, total) AS SELECT customer, SUM(total) FROM orders GROUP BY customer",
    "CREATE TABLE progress (id INTEGER PRIMARY KEY, step INTEGER)",
    "INSERT INTO progress VALUES (1, 0)",
)
_WRONG: Final = (
    ("INSERT INTO customer SELECT NULL, id + 5000000, name, 1 FROM customer LIMIT 1", "TUPLE_FOUND"),
    ("INSERT INTO customer VALUES (NULL, -1, 'poor', -1)", "CK_CONSTRAINT_FAILED"),
    ("INSERT INTO customer (id) VALUES (-1)", "SQL_EXECUTE"),
    ("INSERT INTO orders (customer) VALUES (-1)", "SQL_EXECUTE"),
    ("INSERT INTO orders SELECT NULL, 0, id FROM customer LIMIT 1", "CK_CONSTRAINT_FAILED"),
    ("UPDATE orders SET customer = -1", "SQL_EXECUTE"),
)
"""Statements that a constraint refuses while there is a customer with an order, and the names of the errors' codes."""


class Model(StepModel):
    """The rows after the steps 1 to `step`. An order is `(customer, total)`: its number is left to the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.customers: dict[int, tuple[str, int]] = {}
        self.orders: list[tuple[int, int]] = []
        self.notes: list[str] = []

    def _make(self, n: int) -> None:
        kind = n % 10
        if kind in (1, 2, 9):
            self.customers[n] = (f"name {n}", 100)
            self.orders += [(n, 7), (n, n)]
            self.notes.append(f"new name {n}")
        elif kind == 3:
            self._delete([n - 11])
        elif kind == 4 and n - 3 in self.customers:
            self.customers[n + _FAR] = self.customers.pop(n - 3)
            self.orders = [(n + _FAR if key == n - 3 else key, total) for key, total in self.orders]
        elif kind == 7:
            self.customers = {
                key: (name, credit + (n - 20 < key < _FAR)) for key, (name, credit) in self.customers.items()
            }
        elif kind == 8:
            self._delete([key for key in sorted(self.customers) if key % _FAR < n - _KEPT])

    def _delete(self, keys: list[int]) -> None:
        for key in keys:
            if key in self.customers:
                self.notes.append(f"gone {self.customers.pop(key)[0]}")
                self.orders = [order for order in self.orders if order[0] != key]


def transaction(n: int) -> list[str]:
    """Return the statements of step `n` that change rows, without those that begin and end the transaction."""
    kind = n % 10
    if kind in (1, 2, 9):
        return [
            f"INSERT INTO customer (id, name) VALUES ({n}, 'name {n}')",
            f"INSERT INTO orders (customer) VALUES ({n})",
            f"INSERT INTO orders VALUES (NULL, {n}, {n})",
        ]
    if kind == 3:
        return [f"DELETE FROM customer WHERE id = {n - 11}"]
    if kind == 4:
        return [f"UPDATE customer SET id = {n + _FAR} WHERE id = {n - 3}"]
    if kind == 7:
        return [f"UPDATE customer SET credit = credit + 1 WHERE id > {n - 20} AND id < {_FAR}"]
    if kind == 8:
        return [f"DELETE FROM customer WHERE id % {_FAR} < {n - _KEPT}"]
    return []


def definitions(n: int) -> list[str]:
    """Return the statements of step `n` that change tables; each does nothing where it was done before."""
    decade, kind = divmod(n, 10)
    if kind == 0:
        if decade % 2:
            return ["CREATE INDEX IF NOT EXISTS by_total ON orders (total)"]
        return ["DROP INDEX IF EXISTS by_total ON orders"]
    if kind == 5:
        return [
            f"CREATE TABLE IF NOT EXISTS extra{decade} (id INTEGER PRIMARY KEY AUTOINCREMENT, a STRING UNIQUE,"
            " b INTEGER DEFAULT 1 CHECK (b > 0), c INTEGER REFERENCES customer (id) ON DELETE SET NULL)",
            f"CREATE TRIGGER IF NOT EXISTS trigger{decade} AFTER INSERT ON extra{decade} FOR EACH ROW"
            " BEGIN DELETE FROM progress WHERE id = -1; END",
            "DROP TABLE IF EXISTS extra" + (str(decade - 1) if decade else "_none"),
        ]
    return []


class Worker:
    """Makes steps in one session of a node."""

    def __init__(self, node: Instance) -> None:
        self._node = node
        self._ctx = node.new_context()

    async def run(self, text: str) -> list[list[Any]]:
        """Run a statement, and return its rows."""
        return getattr(await self._node.sql.execute(self._ctx, text, ()), "rows", [])

    async def prepare(self) -> int:
        """Make what lacks of the tables, and return the number of the last step."""
        for text in TABLES[:-1]:
            try:
                await self.run(text)
            except BoxError as error:
                if "already exists" not in error.message:
                    raise
        if not (rows := await self.run("SELECT step FROM progress")):
            await self.run(TABLES[-1])
            return 0
        return int(rows[0][0])

    async def step(self, n: int) -> None:
        """Make step `n`, and wait until it is in the log."""
        for text in definitions(n):
            await self.run(text)
        await self.run("START TRANSACTION")
        for text in transaction(n):
            await self.run(text)
        if n % 10 == 6:
            await self.refusals()
        await self.run(f"UPDATE progress SET step = {n} WHERE id = 1")
        await self.run("COMMIT")

    async def refusals(self) -> None:
        """Assert that the constraints refuse what is wrong, if there is a customer with an order."""
        if not await self.run("SELECT 1 FROM orders LIMIT 1"):
            return
        for text, expected in _WRONG:
            raised = await self._error(text)
            assert raised == expected, f"{text}: {raised}"

    async def _error(self, text: str) -> str:
        """Return the name of the code of the error that a statement raises, empty if it raises none."""
        try:
            await self.run(text)
        except BoxError as error:
            return ErrorCode(error.code).name
        return ""


async def check(node: Instance, model: Model, least: int) -> int:
    """Assert that a node has the rows and tables of a step that is `least` or later, and return the step's number.

    `model` is at `least` or before it; afterwards it is at the step that was found.
    """
    if not all(name in names_of(node) for name in ("CUSTOMER", "ORDERS", "AUDIT", "PROGRESS")):
        assert not least, "tables are gone"
        check_definitions(node)
        return 0
    worker = Worker(node)
    rows = await worker.run("SELECT step FROM progress")
    found = rows[0][0] if rows else 0
    assert found >= least, f"step {least} was acknowledged, {found} is there"
    model.advance(found)
    customers = await worker.run("SELECT id, name, credit FROM customer ORDER BY id")
    assert customers == [[key, *row] for key, row in sorted(model.customers.items())], f"step {found}: {customers}"
    orders = await worker.run("SELECT customer, total FROM orders ORDER BY customer, total")
    assert orders == [list(order) for order in sorted(model.orders)], f"step {found}: {orders}"
    notes = [note for (note,) in await worker.run("SELECT note FROM audit ORDER BY id")]
    assert sorted(notes) == sorted(model.notes), f"step {found}: {len(notes)} notes, {len(model.notes)} expected"
    check_definitions(node)
    check_indexes(node)
    if found:
        check_extras(node, found)
        await worker.refusals()
        sums = await worker.run("SELECT SUM(total) FROM sums")
        assert sums == [[sum(total for _, total in model.orders) or None]], sums
    return int(found)


def rows_of(node: Instance, space_id: int, index: int = 0) -> list[Any]:
    """Return the rows of a space in the order of an index."""
    space = node.schema.space(space_id)
    return [unpack(raw) for raw in node.dml.reads.select(node.new_context(), space, index, 2, 0, 2**32 - 1, [])]


def names_of(node: Instance) -> dict[str, int]:
    return {row[2]: row[0] for row in rows_of(node, SpaceId.SPACE)}


def check_definitions(node: Instance) -> None:
    """Assert that nothing in the system spaces belongs to a space that is gone."""
    spaces = set(names_of(node).values())
    for system, field in (
        (SpaceId.INDEX, 0),
        (SpaceId.TRIGGER, 1),
        (SpaceId.SPACE_SEQUENCE, 0),
        (SpaceId.FK_CONSTRAINT, 1),
        (SpaceId.FK_CONSTRAINT, 2),
        (SpaceId.CK_CONSTRAINT, 0),
    ):
        for row in rows_of(node, system):
            assert row[field] in spaces, f"{system.name} has {row} of a space that is gone"
    sequences = {row[0] for row in rows_of(node, SpaceId.SEQUENCE)}
    used = {row[1] for row in rows_of(node, SpaceId.SPACE_SEQUENCE)}
    assert used == sequences, f"sequences {sequences}, used {used}"


def check_indexes(node: Instance) -> None:
    """Assert that all indexes of a table have the same rows."""
    for name in ("CUSTOMER", "ORDERS"):
        space_id = names_of(node)[name]
        rows = rows_of(node, space_id)
        for index in node.schema.space(space_id).indexes:
            assert sorted(rows_of(node, space_id, index)) == rows, f"indexes of {name} do not agree"


def check_extras(node: Instance, step: int) -> None:
    """Assert that the tables and the index are there which the steps up to `step` have made, and those alone."""
    names = names_of(node)
    extras = {int(name[5:]) for name in names if name.startswith("EXTRA")}
    newest = (step - 5) // 10
    if step % 10 == 4:  # the next step may have begun
        assert extras <= {newest, newest + 1}, f"step {step}: {extras}"
        assert extras or newest < 0, f"step {step}: no extra table"
    else:
        assert extras == ({newest} if newest >= 0 else set()), f"step {step}: {extras}"
    indexes = {row[2] for row in rows_of(node, SpaceId.INDEX) if row[0] == names["ORDERS"]}
    if step % 10 != 9:
        assert ("BY_TOTAL" in indexes) == bool(step // 10 % 2), f"step {step}: {indexes}"
    for number in extras:
        space = names[f"EXTRA{number}"]
        for system, field in ((SpaceId.FK_CONSTRAINT, 1), (SpaceId.CK_CONSTRAINT, 0), (SpaceId.SPACE_SEQUENCE, 0)):
            count = sum(row[field] == space for row in rows_of(node, system))
            assert count == 1, f"EXTRA{number} has {count} rows in {system.name}"
        triggers = sum(row[1] == space for row in rows_of(node, SpaceId.TRIGGER))
        assert triggers == 1 or step % 10 == 4, f"EXTRA{number} has {triggers} triggers"
        assert len([row for row in rows_of(node, SpaceId.INDEX) if row[0] == space]) == 2
