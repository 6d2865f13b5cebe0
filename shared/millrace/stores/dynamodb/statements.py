"""PartiQL statements for batches: one fixed text for each set of attributes, the values as parameters."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from millrace.stores.dynamodb.items import Item


class Statement(NamedTuple):
    """One conditional write of a batch."""

    key: tuple[str, str]  #: The item it writes; one request must not name the same twice.
    request: dict[str, Any]


def insert(table: str, item: Item) -> Statement:
    """Fails with DuplicateItem where the key is taken."""
    return Statement(_key(item), {"Statement": _insert_text(table, tuple(item)), "Parameters": list(item.values())})


def update(table: str, key: Item, changes: Item, conditions: list[tuple[str, str, Any]]) -> Statement:
    """Changes attributes where every condition (name, comparison, value) holds; the old item comes with a refusal."""
    comparisons = tuple((name, comparison) for name, comparison, _ in conditions)
    request = {
        "Statement": _update_text(table, tuple(changes), comparisons),
        "Parameters": [*changes.values(), key["pk"], key["sk"], *(value for _, _, value in conditions)],
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return Statement(_key(key), request)


def delete(table: str, key: Item, conditions: list[tuple[str, str, Any]]) -> Statement:
    """Deletes where every condition holds. A missing item is no error: only the returned one tells it was there."""
    comparisons = tuple((name, comparison) for name, comparison, _ in conditions)
    request = {
        "Statement": _delete_text(table, comparisons),
        "Parameters": [key["pk"], key["sk"], *(value for _, _, value in conditions)],
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return Statement(_key(key), request)


def _key(item: Item) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


@lru_cache(maxsize=256)
def _insert_text(table: str, names: tuple[str, ...]) -> str:
    fields = ", ".join(f"'{name}': ?" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{fields}}}'


@lru_cache(maxsize=64)
def _update_text(table: str, names: tuple[str, ...], comparisons: tuple[tuple[str, str], ...]) -> str:
    changes = " ".join(f'SET "{name}" = ?' for name in names)
    return f'UPDATE "{table}" {changes} {_where(comparisons)}'


@lru_cache(maxsize=64)
def _delete_text(table: str, comparisons: tuple[tuple[str, str], ...]) -> str:
    return f'DELETE FROM "{table}" {_where(comparisons)} RETURNING ALL OLD *'  # noqa: S608 (as above)


def _where(comparisons: tuple[tuple[str, str], ...]) -> str:
    conditions = "".join(f' AND "{name}" {comparison} ?' for name, comparison in comparisons)
    return f'WHERE "pk" = ? AND "sk" = ?{conditions}'
