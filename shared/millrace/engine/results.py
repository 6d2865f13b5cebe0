"""What a finished message gave: as it is kept, and as it is read."""

from __future__ import annotations

import logging
from dataclasses import replace

from millrace.engine.enqueue import Receipt
from millrace.engine.queue import Queue
from millrace.model.errors import BodyLost, KeyUnavailable
from millrace.model.message import Entry, Result

log = logging.getLogger("millrace")


def result_of(queue: Queue, entry: Entry, snapshot: bytes | None) -> Result:
    """What is kept of a message that this claim finished.

    Where it cannot be encrypted now nothing is: the work is done, and a result is worth less than doing it again.
    """
    now = queue.now()
    result = Result(entry.id, entry.nonce, entry.version, now, snapshot or b"", queue.spec.message_ttl(now))
    if not (queue.key and snapshot):
        return result
    try:
        return queue.runtime.encryption.encrypt_result(queue.key, result, queue.tenant, queue.spec.name)
    except KeyUnavailable as error:
        fields = {"action": "results_lost", "queue": queue.spec.name, "tenant": queue.tenant, "error": str(error)}
        log.warning("A message is done, but its result could not be encrypted and is not kept.", extra=fields)
        return replace(result, snapshot=b"")


def read_result(queue: Queue, result: Result | None) -> bytes | None:
    """What a finished message gave; None where nothing was kept, or its key is gone. Raises KeyUnavailable."""
    if result is None or not result.snapshot:
        return None
    try:
        return queue.runtime.encryption.snapshot(result, queue.tenant, queue.spec.name)
    except BodyLost:
        return None


def with_result(queue: Queue, receipt: Receipt) -> Receipt:
    """The receipt of a repeat with what the message gave, also where that is encrypted. Raises KeyUnavailable."""
    if receipt.encrypted_result is None:
        return receipt
    return replace(receipt, result=read_result(queue, receipt.encrypted_result), encrypted_result=None)
