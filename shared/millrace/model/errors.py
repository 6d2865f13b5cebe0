"""Everything that Millrace refuses, as one tree.

    MillraceError
    ├── InvalidRequest            the caller's input is wrong; nothing was written
    │   ├── UnknownQueue          no such queue in the definitions
    │   ├── InvalidField          one named field is out of range or malformed
    │   ├── InvalidCursor         a page cursor that this list did not hand out
    │   ├── BodyTooLarge          the body is over the queue's limit
    │   │   └── RequestTooLarge   … or over what one request carries
    │   ├── UploadRefused         the queue takes no uploads
    │   ├── UploadMissing         there is no such upload of the caller's
    │   ├── TooManyValues         the body's JSON holds more values than anybody reads
    │   ├── InvalidMessage        the message does not fit its type; names every path
    │   ├── ExpressionFailed      an expression of the definition has no value for this message
    │   └── InvalidTransaction    writes that cannot share a transaction with the queue's own
    ├── NotFound                  no message or dead letter of that id
    ├── BodyLost                  a large body is gone, or is not what was accepted
    │   ├── DictionaryLost        the dictionary that a body is packed with is gone
    │   └── KeyLost               the KMS key that it is encrypted under is gone
    ├── StaleClaim                the claim is no longer the newest; nothing was changed
    ├── StaleState                the workflow state has another version; nothing was changed
    ├── TransactionRefused        a condition of the caller's own writes did not hold; nothing was written
    ├── DuplicateMessage          a transaction's message is there already; nothing was written
    ├── KeyReused                 the idempotency key belongs to a message with another body; nothing was accepted
    ├── AlreadyReplayed           the dead letter was replayed before; nothing was written
    ├── MessageHeld               a worker holds the message; nothing was changed
    ├── QueueFull                 max_depth is reached; try again after `retry_after` seconds
    ├── InvalidDefinitions        the compiled definitions are not what `millrace compile` writes
    └── StoreUnavailable          the table did not answer within the deadline; the outcome may be unknown
        └── KeyUnavailable        the KMS key of an encrypted queue cannot be used now

The core knows no HTTP: one table at the edge maps `code` to a status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class MillraceError(Exception):
    """Something that Millrace refuses or cannot do."""

    code: ClassVar[str] = "error"


class InvalidRequest(MillraceError):
    """The caller's input is wrong; nothing was written."""

    code = "invalid_request"


class UnknownQueue(InvalidRequest):
    """No queue of that name is defined."""

    code = "unknown_queue"

    def __init__(self, name: str, known: tuple[str, ...] = (), nearest: str | None = None) -> None:
        self.name = name
        self.known = known
        self.nearest = nearest
        guess = f" Did you mean {nearest!r}?" if nearest else ""
        listed = f" Defined are: {', '.join(sorted(known))}." if known else ""
        super().__init__(f"There is no queue {name[:80]!r}.{guess}{listed}")


class InvalidField(InvalidRequest):
    """One field of the input is out of range or malformed."""

    code = "invalid_field"

    def __init__(self, field: str, problem: str, allowed: str) -> None:
        self.field = field
        self.problem = problem
        self.allowed = allowed
        super().__init__(f"{field}: {problem}. Allowed: {allowed}.")


class InvalidCursor(InvalidRequest):
    """The page cursor was not handed out by this list."""

    code = "invalid_cursor"

    def __init__(self) -> None:
        super().__init__(
            "cursor: not one that this list handed out. Allowed: the `next` value of the previous page, unchanged."
        )


class BodyTooLarge(InvalidRequest):
    """The body is larger than the queue takes."""

    code = "body_too_large"

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"body: {size} bytes. Allowed: at most {limit} bytes.")


class RequestTooLarge(BodyTooLarge):
    """The request is larger than a function is handed for sure, whatever its queue takes."""

    def __init__(self, encoded: int, binary: int) -> None:
        super().__init__(encoded + 1, encoded)
        over = f"body: more than {encoded} bytes as a function is handed it."
        allowed = f"Allowed in a request: {binary} bytes, more of text, where a quote or a line end counts twice."
        self.args = (f"{over} {allowed} Send a larger one by an upload (POST /v1/queues/{{queue}}/uploads).",)


class UploadRefused(InvalidRequest):
    """The queue reads or encrypts its messages, so their bodies come with the request."""

    code = "upload_refused"

    def __init__(self, queue: str, *, encrypted: bool = False) -> None:
        why = "is encrypted, and an upload lies in the bucket as it came"
        why = why if encrypted else "has a message_type, which an upload is not held against"
        super().__init__(f"body_upload: queue {queue!r} {why}.")


class UploadMissing(InvalidRequest):
    """No upload of the caller's own is what the message names."""

    code = "upload_missing"

    def __init__(self) -> None:
        super().__init__(
            "body_upload: there are no such bytes: not transferred yet, older than a day, or of another token, tenant "
            "or queue. Ask for an upload, transfer it, and enqueue again."
        )


class TooManyValues(InvalidRequest, ValueError):
    """The body's JSON holds more values than are read: each costs memory, however few bytes spell it."""

    code = "too_many_values"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"body: JSON of more than {limit} values. Allowed: at most {limit} in a body.")


class InvalidMessage(InvalidRequest):
    """The message does not fit the type that its queue declares."""

    code = "invalid_message"

    def __init__(self, problems: Sequence[tuple[str, str, str]]) -> None:
        self.problems = tuple(problems)  #: path, what was expected, what was found
        super().__init__("; ".join(f"{path}: expected {expected}, found {found}" for path, expected, found in problems))


class ExpressionFailed(InvalidRequest):
    """An expression of the queue's definition has no value for this message."""

    code = "expression_failed"

    def __init__(self, expression: str, problem: str) -> None:
        self.expression = expression
        self.problem = problem
        super().__init__(f"`{expression}`: {problem}.")


class InvalidTransaction(InvalidRequest):
    """Writes that cannot share a transaction with the queue's own; nothing was written."""

    code = "invalid_transaction"


class NotFound(MillraceError):
    """There is nothing under that id."""

    code = "not_found"

    def __init__(self, what: str, name: str) -> None:
        self.what = what
        self.name = name
        super().__init__(f"There is no {what} {name!r}.")


class BodyLost(MillraceError):
    """A blob is gone, or does not hold the bytes that were accepted."""

    code = "body_lost"


class DictionaryLost(BodyLost):
    """The dictionary that a body is packed with is gone; the packed body is still there."""

    code = "dictionary_lost"

    def __init__(self, tenant: str, queue: str, name: str) -> None:
        self.name = name
        super().__init__(
            f"Dictionary {name!r} of queue {queue!r} of tenant {tenant!r} is gone: bodies packed with it cannot be "
            f"read. Restore its item (Z#{tenant}#{queue}, {name}) from a backup of the queue table and replay."
        )


class KeyLost(BodyLost):
    """The KMS key under which a message is encrypted is gone: nobody can read it any more."""

    code = "key_lost"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The KMS key {key!r} is gone: what was encrypted under it cannot be read by anybody.")


class StaleClaim(MillraceError):
    """The claim is not the newest on its entry; nothing was changed."""

    code = "stale_claim"

    def __init__(self, message_id: str, version: int, current: int | None) -> None:
        self.message_id = message_id
        self.version = version
        self.current = current
        now = "its entry has ended" if current is None else f"the current version is {current}"
        super().__init__(f"Claim version {version} on message {message_id!r} is stale: {now}.")


class StaleState(MillraceError):
    """The workflow state was changed since it was read; nothing was written."""

    code = "stale_state"

    def __init__(self, message_id: str, expected: int, current: int) -> None:
        self.message_id = message_id
        self.expected = expected
        self.current = current
        super().__init__(
            f"State of message {message_id!r} has version {current}, not {expected}: read it again and retry."
        )


class TransactionRefused(MillraceError):
    """A condition of the caller's own writes did not hold; nothing was written, the queue's part neither."""

    code = "transaction_refused"

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = dict(reasons)  #: position among the caller's writes, from 0 → why
        told = "; ".join(f"write {position + 1}: {reason}" for position, reason in sorted(reasons.items()))
        super().__init__(f"The transaction was refused, nothing was written: {told}.")


class DuplicateMessage(MillraceError):
    """A message of a transaction is there already, under the same idempotency key; nothing was written."""

    code = "duplicate_message"

    def __init__(self, message_id: str, status: str) -> None:
        self.message_id = message_id
        self.status = status  #: of the message that is there
        super().__init__(f"Message {message_id!r} of the same idempotency key is there already ({status}).")


class KeyReused(MillraceError):
    """The idempotency key belongs to a message with another body; nothing was accepted."""

    code = "idempotency_conflict"

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        super().__init__(f"The idempotency key belongs to message {message_id!r}, whose body is another.")


class AlreadyReplayed(MillraceError):
    """The dead letter was replayed before; nothing was written."""

    code = "already_replayed"

    def __init__(self, dead_letter: str, message_id: str) -> None:
        self.message_id = message_id
        super().__init__(f"Dead letter {dead_letter!r} was replayed as {message_id!r}: say `again` to do it once more.")


class MessageHeld(MillraceError):
    """A worker holds the message; nothing was changed."""

    code = "message_held"

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        super().__init__(f"A worker holds message {message_id!r}: break its claim first, or wait for it.")


class QueueFull(MillraceError):
    """The queue holds as many unfinished messages as it may."""

    code = "queue_full"

    def __init__(self, queue: str, max_depth: int, retry_after: int = 5) -> None:
        self.queue = queue
        self.max_depth = max_depth
        self.retry_after = retry_after
        super().__init__(f"Queue {queue!r} holds its {max_depth} unfinished messages: try again in {retry_after} s.")


class InvalidDefinitions(MillraceError):
    """The compiled definitions are not what `millrace compile` writes."""

    code = "invalid_definitions"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"Compiled definitions: {problem}. Compile them again with `millrace compile`.")


class StoreUnavailable(MillraceError):
    """The table did not answer within the deadline; whether the write happened may be unknown."""

    code = "store_unavailable"


class KeyUnavailable(StoreUnavailable):
    """The KMS key of an encrypted queue cannot be used now: an outage, a disabled key, a missing permission."""

    code = "key_unavailable"

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"The KMS key {key!r} cannot be used now: {reason}")
