"""What an item weighs by DynamoDB's own rules, and the largest entry that the checks let through.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
"""

from __future__ import annotations

from typing import Any

from millrace.engine.drafts import KEY_BYTES, LABEL_BYTES, PROJECT_BYTES
from millrace.model.keys import key_group, partition, priority_prefix
from millrace.model.message import Entry, Place


def item_bytes(item: dict[str, Any]) -> int:
    return sum(len(name.encode()) + _value_bytes(value) for name, value in item.items())


def _value_bytes(typed: dict[str, Any]) -> int:
    ((kind, value),) = typed.items()
    match kind:
        case "S":
            return len(value.encode())
        case "B":
            return len(value)
        case "N":
            return _number_bytes(value)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_bytes(part) for name, part in value.items())
    raise ValueError(kind)


def _number_bytes(text: str) -> int:
    """Two digits to a byte, counted from the decimal point, without the zeros around them."""
    digits = text.lstrip("-")
    pairs = digits.zfill(len(digits) + len(digits) % 2)
    while pairs.endswith("00"):
        pairs = pairs[:-2]
    return 1 + len(pairs) // 2 + text.startswith("-")


def largest_entry(tenant: str = "t" * 48, number: int = 0) -> Entry:
    """Every field as long as the checks allow, held by somebody with the longest name."""
    tenant = tenant.ljust(48, "t")
    key = "é" * (KEY_BYTES // 2)
    label = "l" * 32
    labels = (*(label for _ in range(LABEL_BYTES // 33)), "l" * (LABEL_BYTES % 33 - 1))
    return Entry(
        Place(partition(tenant, "q" * 64, 9999), f"{priority_prefix(0)}{key_group(key)}#{number:032d}"),
        id=f"{number:032d}",
        nonce="n" * 22,
        enqueued_at=9_999_999_999_999,
        expires_at=9_999_999_999_999,
        priority=9999,
        correlation_id="c" * 64,
        key=key,
        project="p" * PROJECT_BYTES,
        labels=labels,
        due=9_999_999_999_999,
        attempts=99_999,
        deliveries=99_999_999,
        version=99_999_999,
        token="t" * 22,
        until=9_999_999_999_999,
        since=9_999_999_999_999,
        owner="o" * 64,
    )
