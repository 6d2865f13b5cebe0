"""What requests cost: as the engine reports it, and by DynamoDB's own rules where an engine does not say.

DynamoDB Local sizes single writes and reads rightly, but reports nothing for PartiQL batches and too little for
transactions. MiniStack reports both, one unit for each statement however large. So each request is also charged by
the rules, and wherever an engine is to be trusted the two must agree: `disputed` lists where they do not.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from millrace.stores.dynamodb.items import Item
from tests.stores.sizes import item_bytes

READS = {"GetItem", "Query", "BatchGetItem"}
_INSERTED = re.compile(r"'(\w+)': \?")


def units(item: Item) -> int:
    """Write units of one item: a started KB each."""
    return math.ceil(item_bytes(item) / 1024)


@dataclass(frozen=True, slots=True)
class Charge:
    """One request."""

    operation: str
    reported: float | None
    ruled: float | None  #: None where the rules need the item as it stands; then the engine alone tells
    accounting: bool = False  #: a write of the queue's counters, shared by many messages
    single_units: bool = False  #: none of its writes is above one unit, as far as the request shows

    @property
    def is_read(self) -> bool:
        return self.operation in READS

    @property
    def paid(self) -> float:
        paid = self.reported if self.ruled is None else self.ruled
        assert paid is not None, f"nobody knows what {self.operation} costs"
        return paid


class Meter:
    """Reads every request of a client, and adds to each that it wants to know its price."""

    def __init__(self, client: Any, *, reports_batches: bool) -> None:
        self.charges: list[Charge] = []
        self._reports_batches = reports_batches
        client.meta.events.register("provide-client-params.dynamodb.*", self._ask)
        client.meta.events.register("after-call.dynamodb.*", self._note)

    def reset(self) -> None:
        self.charges = []

    @property
    def writes(self) -> float:
        return sum(charge.paid for charge in self.charges if not charge.is_read)

    @property
    def reads(self) -> float:
        return sum(charge.reported or 0 for charge in self.charges if charge.is_read)

    @property
    def operations(self) -> list[str]:
        return [charge.operation for charge in self.charges]

    @property
    def disputed(self) -> list[Charge]:
        """Where an engine that should know says otherwise than the rules."""
        return [charge for charge in self.charges if self._trusted(charge) and charge.reported != charge.ruled]

    def _trusted(self, charge: Charge) -> bool:
        if charge.is_read or charge.ruled is None or charge.reported is None:
            return False
        if charge.operation in ("BatchExecuteStatement", "TransactWriteItems"):
            return self._reports_batches and charge.single_units
        return True

    def _ask(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_more: Any) -> dict[str, Any]:
        if "ReturnConsumedCapacity" not in model.input_shape.members:
            return params  # about a table, not its items
        context["millrace"] = params
        return {**params, "ReturnConsumedCapacity": "TOTAL"}

    def _note(self, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_more: Any) -> None:
        if "millrace" not in context:
            return
        capacity = parsed.get("ConsumedCapacity")
        tables = capacity if isinstance(capacity, list) else [capacity] if capacity else []
        reported = sum(table["CapacityUnits"] for table in tables) if tables else None
        if "Error" in parsed and reported is None:
            reported = 1.0  # AWS charges a failed condition as a write of what is there; entries are one unit
        charged = _charged(model.name, context["millrace"])
        ruled = None if charged is None else sum(charged)
        accounting = model.name == "UpdateItem" and context["millrace"]["Key"]["pk"]["S"].startswith("C#")
        single_units = charged is not None and max(charged) <= 2
        self.charges.append(Charge(model.name, reported, ruled, accounting, single_units))


def _charged(operation: str, request: dict[str, Any]) -> list[int] | None:
    """Units of each write of a request, by the rules. Entries, which are all that is deleted or updated in batches and
    transactions, are below 1 KB: a test of its own holds that."""
    match operation:
        case "PutItem":
            return [units(request["Item"])]
        case "BatchExecuteStatement":
            return [_statement_units(statement) for statement in request["Statements"]]
        case "TransactWriteItems":
            return [
                2 * (units(write["Item"]) if kind == "Put" else 1)
                for action in request["TransactItems"]
                for kind, write in action.items()
            ]
    return None


def _statement_units(statement: dict[str, Any]) -> int:
    if not statement["Statement"].startswith("INSERT"):
        return 1
    names = _INSERTED.findall(statement["Statement"])
    return units(dict(zip(names, statement["Parameters"], strict=True)))
