"""What a user without rights may do: the rights on a view's tables count, and which right is missing first."""

from __future__ import annotations

import pytest

from box.data.codec import pack
from box.errors import BoxError
from box.schema.access import Privilege
from box.txn.pending import completed
from box.wire.change import Request

from .conftest import Session, Start


@pytest.fixture
def db(start: Start) -> Session:
    found = start()
    found.sql("create table t (id int primary key)")
    found.sql("create table c (id int primary key references t (id))")
    found.sql("create view v as select * from t")
    found.sql("insert into t values (1)")
    return found


def _guest(db: Session, **rights: int) -> Session:
    """Return a session of the user guest with these rights on spaces, and no others."""
    db.wait(completed(db.node.dml.write(db.ctx, db.node.schema.space_by_name("_priv"), Request.delete([0, "role", 2]))))
    for name, mask in rights.items():
        space = db.node.schema.space_by_name(name)
        db.write("_priv", Request.insert(pack([1, 0, "space", space.id, mask])))
    guest = db.another()
    guest.ctx.credentials = db.node.schema.guest
    return guest


@pytest.mark.parametrize(
    ("rights", "text", "denied"),
    [
        ({}, "select * from v", "Read access to space 'T'"),
        ({"V": Privilege.R}, "select * from v", "Read access to space 'T'"),
        ({"T": Privilege.R}, "insert into c values (5)", "Write access to space 'C'"),
        ({}, "delete from t", "Write access to space 'T'"),
        ({}, "delete from t where id = 1", "Read access to space 'T'"),
        ({}, "insert into c select * from t", "Read access to space 'T'"),
        ({}, "select count(*) from t", "Read access to space 'T'"),
        ({}, "select * from t where id = 1", "Read access to space 'T'"),
        ({}, "select 1 where exists (select 1 from t)", "Read access to space 'T'"),
        ({}, "drop index nothing on t", "Read access to space '_index'"),
        ({}, "drop trigger nothing", "Read access to space '_trigger'"),
        ({}, "alter table t enable check constraint nothing", "Read access to space '_ck_constraint'"),
        ({}, "alter table t rename to t2", "Write access to space '_space'"),
        ({}, "drop view v", "Read access to space '_space'"),
    ],
)
def test_the_first_right_that_is_missing(db: Session, rights: dict[str, int], text: str, denied: str) -> None:
    assert _guest(db, **rights).error(text)[1] == f"{denied} is denied for user 'guest'"


def test_rights_are_looked_at_when_a_statement_runs(db: Session) -> None:
    """A user may prepare and explain any statement, and wrong parameters are told first."""
    guest = _guest(db)
    for text in ("select * from t", "select * from t where id = ?", "delete from t", "insert into c select * from t"):
        prepared = guest.node.sql.prepare(guest.ctx, text)
        assert guest.sql("explain query plan " + text.replace("?", "1")) is not None
        assert guest.error(text, 1, 2)[1].endswith("The number of parameters is too large")
        with pytest.raises(BoxError, match=r"access to space '[TC]' is denied"):
            guest.wait(guest.node.sql.execute_prepared(guest.ctx, prepared.id, [1] if "?" in text else []))
    assert db.value("select count(*) from t") == 1


def test_the_rights_on_the_tables_of_a_view_count(db: Session) -> None:
    guest = _guest(db, T=Privilege.R)
    for _ in range(2):
        assert guest.sql("select * from v") == [[1]]


def test_or_ignore_hides_any_error_of_the_write(db: Session) -> None:
    """As in Tarantool, IGNORE hides even a missing right; each updated row counts, though it stays as it was."""
    guest = _guest(db, T=Privilege.R)
    assert guest.error("insert into t values (5)")[0] == "ACCESS_DENIED"
    assert guest.sql("insert or ignore into t values (5)") == 0
    assert db.sql("select * from t") == [[1]]
    db.sql("create table k (id int primary key, a int check (a < 5))")
    db.sql("insert into k values (1, 1), (2, 2)")
    assert db.sql("update or ignore k set a = 9 where id = 1") == 1
    assert db.sql("select * from k") == [[1, 1], [2, 2]]
