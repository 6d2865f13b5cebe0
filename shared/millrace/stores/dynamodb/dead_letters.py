"""The dead-letter table."""

from __future__ import annotations

from millrace.model.cursor import Page
from millrace.model.message import DeadLetter
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.entries import JUST_AFTER
from millrace.stores.dynamodb.items import dead_letter_key, dead_letter_of
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.tables import DeadLetterItem, Requests


class DeadLetters:
    """Dead letters of a queue, in the order in which they failed."""

    _calls: RetryingClient
    _requests: Requests
    _names: TableNames

    def read_dead_letters(
        self, tenant: str, queue: str, after: str, upto: str, limit: int, *, newest_first: bool = False
    ) -> Page[DeadLetter]:
        """Both bounds are left out. One more than wanted is read, since the upper bound itself may come along."""
        if after >= upto:
            return Page((), None)
        answer = self._calls.send(
            "query",
            TableName=self._names.dead_letters,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :after AND :upto",
            ExpressionAttributeValues={
                ":pk": {"S": f"{tenant}#{queue}"},
                ":after": {"S": after + JUST_AFTER},
                ":upto": {"S": upto},
            },
            ConsistentRead=True,
            ScanIndexForward=not newest_first,
            Limit=limit + 1,
        )
        found = [item for item in answer["Items"] if item["sk"]["S"] != upto]
        dead_letters = tuple(dead_letter_of(item) for item in found[:limit])
        more = len(found) > limit or "LastEvaluatedKey" in answer
        return Page(dead_letters, dead_letters[-1].sk if more and dead_letters else None)

    def get_dead_letter(self, tenant: str, queue: str, sk: str) -> DeadLetter | None:
        answer = self._calls.send(
            "get_item",
            TableName=self._names.dead_letters,
            Key=dead_letter_key(tenant, queue, sk),
            ConsistentRead=True,
        )
        return dead_letter_of(answer["Item"]) if "Item" in answer else None

    def mark_replayed(self, dead_letter: DeadLetter) -> bool:
        message = dead_letter.message
        request = self._requests.update(
            self._names.dead_letters,
            dead_letter_key(message.tenant, message.queue, dead_letter.sk),
            [
                DeadLetterItem.replayed.set(dead_letter.replayed_at),
                DeadLetterItem.replayed_as.set(dead_letter.replayed_as),
                DeadLetterItem.replay_job.set(dead_letter.replay_job),
            ],
            DeadLetterItem.pk.exists(),
        )
        try:
            self._calls.send("update_item", **request)
        except ConditionFailed:
            return False
        return True

    def delete_dead_letter(self, tenant: str, queue: str, sk: str) -> bool:
        """A deletion that found nothing after a try without an answer was most likely that try's own."""
        request = self._requests.delete(
            self._names.dead_letters, dead_letter_key(tenant, queue, sk), DeadLetterItem.pk.exists()
        )
        try:
            self._calls.send("delete_item", **request)
        except ConditionFailed as refusal:
            return refusal.after_no_answer
        return True
