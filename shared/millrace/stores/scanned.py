"""What a scan of the whole queue table tells of its messages."""

from __future__ import annotations

from millrace.model.keys import WITHDRAWN
from millrace.model.message import ERASED, Message, Place
from millrace.model.values import dataclass

LATEST = 9_999_999_999_999


@dataclass(frozen=True, slots=True)
class ScannedMessage:
    """All that a scan tells of a message: whose it is, when it came, and where its entry was first put."""

    id: str
    queue: str
    nonce: str
    place: Place
    received_at: int
    position: str  #: where a scan goes on behind it
    key: str = ""
    project: str = ""
    correlation_id: str = ""

    @property
    def erased(self) -> bool:
        return self.place.sk == ERASED


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """Which of a tenant's messages a scan gives back. All that is stored is looked at, and paid for, all the same."""

    queue: str = ""  #: every one unless named
    received_from: int = 0
    received_before: int = LATEST

    def matches(self, message: Message) -> bool:
        in_window = self.received_from <= message.received_at < self.received_before
        return in_window and self.queue in ("", message.queue) and message.place.sk != WITHDRAWN


EVERY_MESSAGE = ScanFilter()


@dataclass(frozen=True, slots=True)
class ScannedPage:
    """Part of a scan."""

    items: tuple[ScannedMessage, ...]
    next: str | None  #: where to go on; None at the end
    units: float  #: read units that it was charged; in memory, one for each message looked at


def scanned(message: Message, position: str) -> ScannedMessage:
    """What a scan tells of a message."""
    return ScannedMessage(
        message.id,
        message.queue,
        message.nonce,
        message.place,
        message.received_at,
        position,
        key=message.key,
        project=message.project,
        correlation_id=message.correlation_id,
    )
