"""Uses a server through psycopg 3 as a Python program would, and checks every answer.

Not a benchmark and not a test of psycopg. Run by tests/psycopg.rs with the server's URL; prints "done" at the end.
"""

import datetime as dt
import math
import sys
from decimal import Decimal

import psycopg
from psycopg import errors
from psycopg.rows import dict_row


def basics(url):
    """Autocommit off: nothing is seen before commit; a with block commits or rolls back."""
    with psycopg.connect(url) as one, psycopg.connect(url, autocommit=True) as two:
        one.execute("CREATE TABLE item (id int PRIMARY KEY, name text, price numeric(10,2))")
        one.commit()
        one.execute("INSERT INTO item VALUES (%s, %s, %s)", (1, "ball", Decimal("9.50")))
        assert two.execute("SELECT count(*) FROM item").fetchone() == (0,)
        one.commit()
        assert two.execute("SELECT * FROM item").fetchall() == [(1, "ball", Decimal("9.50"))]
        try:
            with one.transaction():
                one.execute("DELETE FROM item")
                raise KeyError
        except KeyError:
            pass
        with one.transaction():
            one.execute("UPDATE item SET price = price * 2")
            try:
                with one.transaction():
                    one.execute("INSERT INTO item VALUES (1, 'again', 0)")
            except errors.UniqueViolation as error:
                assert error.diag.constraint_name == "item_pkey", error.diag.constraint_name
        one.commit()
        assert two.execute("SELECT price FROM item").fetchone() == (Decimal("19.00"),)
        with two.cursor(row_factory=dict_row) as cursor:
            assert cursor.execute("SELECT id, name FROM item").fetchone() == {"id": 1, "name": "ball"}


def many(url):
    """executemany pipelines its statements; returning gives each one's rows."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO item (id, name) VALUES (%s, %s)", [(n, f"item {n}") for n in range(100, 600)])
        assert cursor.rowcount == 500
        cursor.executemany("UPDATE item SET name = upper(name) WHERE id = %s RETURNING id", [(n,) for n in (100, 101)], returning=True)
        found = []
        while True:
            found += cursor.fetchall()
            if not cursor.nextset():
                break
        assert found == [(100,), (101,)], found
        connection.commit()
        with connection.pipeline():
            first = connection.execute("SELECT count(*) FROM item")
            second = connection.execute("SELECT name FROM item WHERE id = %s", (101,))
        assert first.fetchone() == (501,) and second.fetchone() == ("ITEM 101",)


def copy(url):
    """COPY in by rows and by block, COPY out by rows and by block."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE line (n int, t text, at date)")
        rows = [(n, f"tab\t and \\ and \n {n}", dt.date(2000, 1, 1) + dt.timedelta(days=n)) for n in range(1000)] + [(None, None, None)]
        with cursor.copy("COPY line (n, t, at) FROM STDIN") as stream:
            for row in rows:
                stream.write_row(row)
        assert cursor.execute("SELECT n, t, at FROM line ORDER BY n NULLS LAST").fetchall() == rows
        with cursor.copy("COPY line TO STDOUT") as stream:
            block = b"".join(bytes(part) for part in stream)
        assert block.count(b"\n") == 1001, block.count(b"\n")
        with cursor.copy("COPY line FROM STDIN") as stream:
            stream.write(block)
        assert cursor.execute("SELECT count(*), count(n) FROM line").fetchone() == (2002, 2000)
        try:
            with cursor.copy("COPY line FROM STDIN") as stream:
                stream.write("1\tx\tno date\n")
            raise AssertionError("COPY took a bad date")
        except errors.InvalidDatetimeFormat:
            connection.rollback()


def types(url):
    """Parameters and results of each type, in text and in binary."""
    zone = dt.timezone(dt.timedelta(hours=2))
    values = [
        ("bool", True), ("int2", -7), ("int4", 2**31 - 1), ("int8", -(2**63)), ("float8", 1.5e300), ("float4", 0.25),
        ("numeric", Decimal("12345678901234567890.000123")), ("numeric", Decimal("-0.5")), ("numeric", Decimal("0.00")),
        ("text", "gr\u00fcn \U0001F415"), ("varchar", ""), ("bytea", bytes(range(256))), ("date", dt.date(1999, 12, 31)),
        ("date", dt.date(1, 1, 1)), ("time", dt.time(23, 59, 59, 999999)), ("timestamp", dt.datetime(2024, 2, 29, 12, 30, 1, 5)),
        ("timestamptz", dt.datetime(2024, 2, 29, 12, 30, 1, 5, zone)), ("oid", 4_000_000_000),
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        for binary in (False, True):
            for name, value in values:
                mark = "%b" if binary else "%t"
                got = connection.execute(f"SELECT {mark}::{name}", (value,), binary=binary).fetchone()[0]
                assert got == value, (name, binary, value, got)
                none = connection.execute(f"SELECT %s::{name}", (None,), binary=binary).fetchone()[0]
                assert none is None, (name, none)
        assert math.isnan(connection.execute("SELECT 'NaN'::float8", binary=True).fetchone()[0])
        assert connection.execute("SELECT id FROM item WHERE id = ANY(%s) ORDER BY id", ([1, 100, 7],)).fetchall() == [(1,), (100,)]
        # The same statement again and again becomes a prepared one after five times.
        for n in range(12):
            assert connection.execute("SELECT %s::int + 1", (n,)).fetchone() == (n + 1,)
        names = [column.name for column in connection.execute("SELECT 1 AS a, 'x' AS b").description]
        assert names == ["a", "b"], names


def failures(url):
    """Errors arrive as the right classes, and the connection says in which state it is."""
    with psycopg.connect(url) as connection:
        for sql, kind in [
            ("SELEC", errors.SyntaxError), ("SELECT * FROM nowhere", errors.UndefinedTable), ("SELECT 1/0", errors.DivisionByZero),
            ("INSERT INTO item VALUES (1)", errors.UniqueViolation), ("INSERT INTO item VALUES (NULL)", errors.NotNullViolation),
        ]:
            try:
                connection.execute(sql)
                raise AssertionError(f"{sql} succeeded")
            except kind:
                assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
            connection.rollback()
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert connection.info.server_version == 150000, connection.info.server_version
        assert connection.info.parameter_status("server_encoding") == "UTF8"


def main():
    url = sys.argv[1]
    for part in (basics, many, copy, types, failures):
        part(url)
    print("done")


main()
