"""What is to be erased: all of a key, a project or a tenant; or one message, by its id or idempotency key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

from millrace.model.message import DeadLetter


class EraseBy(StrEnum):
    """By what messages are known to belong to somebody."""

    KEY = "key"
    PROJECT = "project"
    MESSAGE_ID = "message_id"
    IDEMPOTENCY_KEY = "idempotency_key"
    TENANT = "everything"  #: all of the tenant's


class Owned(Protocol):
    """What tells whose a message is."""

    @property
    def queue(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def project(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """What one erasure is about."""

    by: EraseBy
    value: str = ""  #: none for a whole tenant
    queue: str = ""  #: of one queue only

    @property
    def scans(self) -> bool:
        """No id leads to its messages: all of the table is looked through."""
        return self.by in (EraseBy.KEY, EraseBy.PROJECT, EraseBy.TENANT)

    @property
    def named(self) -> str:
        """The text that names somebody, wherever it was written down; empty where an id or a tenant is named."""
        return self.value if self.by in (EraseBy.KEY, EraseBy.PROJECT, EraseBy.IDEMPOTENCY_KEY) else ""

    def matches(self, message: Owned) -> bool:
        """Whether a message that a scan met is meant."""
        right = {EraseBy.KEY: message.key, EraseBy.PROJECT: message.project}.get(self.by, self.value) == self.value
        return right and self.queue in ("", message.queue)

    def matches_dead_letter(self, dead_letter: DeadLetter) -> bool:
        message = dead_letter.message
        ids = {EraseBy.MESSAGE_ID: message.id, EraseBy.IDEMPOTENCY_KEY: message.idempotency_key}
        return self.matches(message) and ids.get(self.by, self.value) == self.value

    def hidden(self) -> Selection:
        """The same without naming anybody: whoever knows the name can tell that it was this one."""
        value = f"sha256:{sha256(self.value.encode()).hexdigest()}" if self.named else self.value
        return Selection(self.by, value, self.queue)

    def written(self) -> str:
        return json.dumps([self.by, self.value, self.queue])


def read_selection(written: str) -> Selection:
    by, value, queue = json.loads(written)
    return Selection(EraseBy(by), value, queue)
