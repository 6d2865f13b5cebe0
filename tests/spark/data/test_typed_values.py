"""Values as columns of their types; what does not fit is null, never an error."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from millrace.spark.data.typed_values import column_value

INNER = StructType([StructField("n", LongType())])


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, StringType(), None),
        ("x", StringType(), "x"),
        ({"a": [1]}, StringType(), '{"a":[1]}'),
        (3, LongType(), 3),
        (True, LongType(), None),
        (2**63, LongType(), None),
        (2**31, IntegerType(), None),
        (3.5, LongType(), None),
        (3, DoubleType(), 3.0),
        ("3", DoubleType(), None),
        (True, BooleanType(), True),
        (1, BooleanType(), None),
        ("1.50", DecimalType(10, 2), Decimal("1.50")),
        ("one", DecimalType(10, 2), None),
        ("2026-11-18T10:00:00.5Z", TimestampType(), datetime(2026, 11, 18, 10, 0, 0, 500_000, UTC)),
        ("yesterday", TimestampType(), None),
        (7, TimestampType(), None),
        ("2026-11-18", DateType(), date(2026, 11, 18)),
        ("18.11.", DateType(), None),
        ("aGk=", BinaryType(), b"hi"),
        ("%", BinaryType(), None),
        (1, ByteType(), None),
        ({"n": 1, "m": 2}, INNER, {"n": 1}),
        ([1], INNER, None),
        ([{"n": 1}, None], ArrayType(INNER), [{"n": 1}, None]),
        ("x", ArrayType(INNER), None),
        ({"k": {"n": "x"}}, MapType(StringType(), INNER), {"k": {"n": None}}),
        ([], MapType(StringType(), INNER), None),
    ],
)
def test_a_value_as_its_column(value: Any, kind: DataType, expected: Any) -> None:
    assert column_value(value, kind) == expected
