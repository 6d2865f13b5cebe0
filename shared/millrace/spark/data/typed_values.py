"""Values of a typed message in the types of Spark's columns, as `from_json` would give them."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)


def column_value(value: Any, kind: DataType) -> Any:
    """A value of a JSON document as a column of this type takes it; None for what does not fit."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        if not isinstance(value, Mapping):
            return None
        return {field.name: column_value(value.get(field.name), field.dataType) for field in kind.fields}
    if isinstance(kind, ArrayType):
        return [column_value(item, kind.elementType) for item in value] if isinstance(value, list) else None
    if isinstance(kind, MapType):
        if not isinstance(value, Mapping):
            return None
        return {name: column_value(item, kind.valueType) for name, item in value.items()}
    return _SCALARS[type(kind)](value) if type(kind) in _SCALARS else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _integer(bits: int) -> Callable[[Any], int | None]:
    limit = 2 ** (bits - 1)

    def convert(value: Any) -> int | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        return value if fits else None

    return convert


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _decimal(value: Any) -> Decimal | None:
    try:
        return None if isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        return None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _bytes(value: Any) -> bytes | None:
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        return None


_SCALARS: Mapping[type[DataType], Callable[[Any], Any]] = {
    StringType: _text,
    LongType: _integer(64),
    IntegerType: _integer(32),
    DoubleType: _number,
    FloatType: _number,
    DecimalType: _decimal,
    BooleanType: _truth,
    TimestampType: _moment,
    DateType: _day,
    BinaryType: _bytes,
}
