"""Interactions from a real PostgreSQL, through the cursors of ADBC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cerp
from cerp.errors import ConfigError, DataError
from local_postgres import postgres

SALES = """
create table sales (customer text, sku bigint, event text, pieces numeric, sold_at timestamptz);
insert into sales values
  ('ann', 7, 'purchase', 2, '2024-03-01 10:00+00'),
  ('ann', 9, 'purchase', 1.5, '2024-03-02 10:00+01'),
  ('bö', 9, 'view', 4, '2024-03-03 10:00+00'),
  ('bö', 7, 'purchase', 1, '2024-03-04 10:00+00'),
  ('ann', 7, 'purchase', 3, '2024-02-01 10:00+00')
"""
QUERY = "select customer, sku, event, pieces::float8 as pieces, sold_at from sales"


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    from adbc_driver_postgresql import dbapi

    with postgres() as address, dbapi.connect(address) as connected:
        with connected.cursor() as cursor:
            for statement in SALES.split(";"):
                cursor.execute(statement)
        connected.commit()
        yield connected


def pairs(data: cerp.Interactions) -> list[tuple[Any, Any]]:
    return list(zip(data.users.decode(data.user), data.items.decode(data.item), strict=True))


def test_the_query_of_a_cursor_is_read_with_ids_times_and_weights(connection: Any):
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        data = cerp.read(cursor, user="customer", item="sku", time="sold_at", weight="pieces")
    assert pairs(data) == [("ann", 7), ("ann", 9), ("bö", 7), ("bö", 9)]
    assert data.weight.tolist() == [5.0, 1.5, 1.0, 4.0]
    # Microseconds since 1970, in UTC; the earlier of the repeated pair.
    assert data.time[:2].tolist() == [1_706_781_600_000_000, 1_709_370_000_000_000]
    assert data.duplicates == 1


def test_a_condition_is_applied_to_what_a_cursor_gives(connection: Any):
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        data = cerp.read(cursor, user="customer", item="sku", where="event = 'purchase'")
    assert pairs(data) == [("ann", 7), ("ann", 9), ("bö", 7)]


def test_a_stream_of_a_cursor_is_read_as_the_cursor_is(connection: Any):
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        data = cerp.read(cursor.fetch_arrow(), user="customer", item="sku")
    assert len(data) == 4


def test_a_cursor_without_a_query_is_refused_with_what_to_do(connection: Any):
    with (
        connection.cursor() as cursor,
        pytest.raises(DataError, match="execute one query that selects users and items"),
    ):
        cerp.read(cursor)


def test_options_of_files_are_refused_for_a_cursor(connection: Any):
    with (
        connection.cursor() as cursor,
        pytest.raises(ConfigError, match="delimiter cannot be used with a cursor"),
    ):
        cerp.read(cursor, delimiter=",")
