"""Erasing in DynamoDB: what a message leaves behind takes the place of all that is kept under its id."""

from __future__ import annotations

from contextlib import suppress

from millrace.model.errors import StoreUnavailable
from millrace.model.message import Entry
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import claim_over, holds_token, nonce_is
from millrace.stores.dynamodb.items import (
    LOCATION,
    RESULT,
    WORKFLOW_STATE,
    entry_of,
    location_item,
    message_item,
    message_key,
    place_key,
    result_item,
)
from millrace.stores.dynamodb.retrying_client import CancelledByCondition, ConditionFailed, RetryingClient
from millrace.stores.dynamodb.writes import Write, delete, put, send_transaction
from millrace.stores.interface import APPLIED, Erasure, Refused, Unknown, WriteResult


class Erasures:
    """Messages that are taken out of the table, but for a trace."""

    _calls: RetryingClient
    _names: TableNames

    def erase_message(self, erasure: Erasure) -> WriteResult[Entry]:
        """One transaction: twice the units of what was there. All of it hangs on the message's nonce."""
        writes = [*self._entry_writes(erasure), *self._record_writes(erasure)]
        try:
            send_transaction(self._calls, [write.in_transaction() for write in writes])
        except CancelledByCondition as refusal:
            found = refusal.items[0] if erasure.entry else None
            return Refused(entry_of(found) if found else None)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def _entry_writes(self, erasure: Erasure) -> list[Write]:
        if erasure.entry is None:
            return []
        as_read = holds_token(erasure.entry.token)
        if erasure.idle_at:
            as_read &= claim_over(erasure.idle_at)
        return [delete(self._names.queue, place_key(erasure.entry.place), as_read)]

    def _record_writes(self, erasure: Erasure) -> list[Write]:
        table, husk = self._names.queue, erasure.husk
        writes = [put(table, message_item(husk), nonce_is(husk.nonce))]
        if erasure.trace:
            writes.append(put(table, location_item(erasure.trace)))
        if erasure.seal:
            writes.append(put(table, result_item(erasure.seal)))
        elif erasure.result:
            writes.append(delete(table, message_key(husk.id, RESULT)))
        if erasure.workflow_state:
            writes.append(delete(table, message_key(husk.id, WORKFLOW_STATE)))
        return writes

    def drop_records(self, message_id: str, nonce: str) -> None:
        for kind in (LOCATION, RESULT, WORKFLOW_STATE):
            write = delete(self._names.queue, message_key(message_id, kind), nonce_is(nonce))
            with suppress(ConditionFailed):  # it is another acceptance's, or there is none
                self._calls.send("delete_item", **write.request())
