"""A shop: orders in a table of its own, and a queue that charges them. What an app would write.

Placing an order writes it and enqueues its charge in one transaction. Charging comes in two ways that differ in one
line: `charge` makes its write in one transaction with the ack, `charge_beside` makes it and then returns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace import Context, Transaction
from millrace.definitions import Definitions
from millrace.definitions.language.compiler import compile_files
from millrace.definitions.loading import load
from millrace.engine.queue import Runtime

TABLE = "shop-orders"
QUEUE = "Charges"
Step = Callable[[str], None]


def definitions() -> Definitions:
    source = Path(__file__).with_name("orders.millrace")
    return load(compile_files([(str(source), source.read_bytes())]).text.encode())


def create_table(client: Any) -> None:
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "number", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "number", "KeyType": "HASH"}],
    )


def place_order(runtime: Runtime, defined: Definitions, number: str) -> None:
    """The order is there and its charge is enqueued, or neither."""
    with Transaction(runtime, defined) as transaction:
        item = {"number": {"S": number}, "charges": {"N": "0"}}
        transaction.write({"Put": {"TableName": TABLE, "Item": item}})
        transaction.enqueue(QUEUE, {"order": number}, idempotency_key=number)


def _charge_of(number: str) -> dict[str, Any]:
    """Counts up, so that a second charge is seen."""
    return {
        "TableName": TABLE,
        "Key": {"number": {"S": number}},
        "UpdateExpression": "ADD charges :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


def charge(given: dict[str, Any], context: Context, _client: Any, step: Step) -> None:
    """Charge an order if and only if its message is done."""
    step("begins")
    context.transact([{"Update": _charge_of(given["order"])}])
    step("charged")


def charge_beside(given: dict[str, Any], _context: Context, client: Any, step: Step) -> None:
    """The same without `transact`: charged, and the message is done a moment later."""
    step("begins")
    client.update_item(**_charge_of(given["order"]))
    step("charged")


WAYS = {"with transact": charge, "without": charge_beside}
