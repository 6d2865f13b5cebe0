"""Enqueue in the caller's own transaction: the order is written and the job enqueued, or neither.

    with Transaction(runtime, definitions) as transaction:
        transaction.write({"Put": {"TableName": "Orders", "Item": {"id": {"S": "7"}}}})
        charge = transaction.enqueue("Charges", {"order": "7"}, idempotency_key="order-7")
    charge.receipt.message_id

PynamoDB's `TransactWrite(connection=transaction)` adds its writes the same way. Everything is written as the block is
left without an exception, in one TransactWriteItems; `millrace.aws.transactions` makes these from an environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from millrace.admission.admit import admit, count_missing_keys
from millrace.definitions import Definitions
from millrace.engine.enqueue import Receipt
from millrace.engine.queue import Runtime
from millrace.engine.transact import Enqueuing, OnDuplicate, accept_with
from millrace.model.errors import InvalidTransaction
from millrace.model.message import Draft
from millrace.model.transaction import Staged


@dataclass(slots=True)
class Enqueued:
    """A message of a transaction; its receipt is there once that is committed."""

    _receipt: Receipt | None = None

    @property
    def receipt(self) -> Receipt:
        """Raises InvalidTransaction before the transaction is committed."""
        if self._receipt is None:
            raise InvalidTransaction("The transaction is not committed: there is no receipt yet.")
        return self._receipt


class Transaction(Staged):
    """Messages and writes of the caller's own, committed together. Used once."""

    def __init__(self, runtime: Runtime, definitions: Definitions, tenant: str = "default") -> None:
        super().__init__()
        self._runtime = runtime
        self._definitions = definitions
        self._tenant = tenant
        self._wanted: list[Enqueuing] = []
        self._answers: list[Enqueued] = []
        self._over = False

    def write(self, *items: Mapping[str, Any]) -> None:
        """Add writes, as boto3's `TransactItems` spells them. Raises InvalidTransaction."""
        self.add(items)

    def enqueue(
        self,
        queue: str,
        body: Any,
        *,
        on_duplicate: OnDuplicate | str = OnDuplicate.FAIL,
        **fields: Any,
    ) -> Enqueued:
        """Add a message: bytes, or anything that JSON can say; `fields` are those of a `Draft`.

        It is admitted as everybody's are: type, filter, keys and limits. A duplicate of its idempotency key fails the
        transaction with DuplicateMessage, or is skipped. Raises InvalidRequest at once.
        """
        definition = self._definitions.queue(queue)
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        admitted = admit(definition, Draft(data, **fields), self._runtime.clock())
        if admitted.key_missing:
            count_missing_keys(queue, 1)
        own = self._runtime.queue(self._tenant, definition.spec)
        self._wanted.append(Enqueuing(own, admitted.draft, admitted.filtered, on_duplicate=OnDuplicate(on_duplicate)))
        self._answers.append(Enqueued())
        return self._answers[-1]

    def commit(self) -> list[Receipt]:
        """Write all of it or nothing; a receipt for each message, in their order. Raises what `accept_with` raises."""
        if self._over:
            raise InvalidTransaction("A transaction is committed once.")
        self._over = True
        receipts = accept_with(self._runtime, self._wanted, self.writes)
        for answer, receipt in zip(self._answers, receipts, strict=True):
            answer._receipt = receipt
        return receipts

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
