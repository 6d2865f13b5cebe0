"""The client without its network: calls as steps that ask for a request to be sent or for time to pass.

A call is a generator. It yields what it needs (`Send`, `Pause`) and is given what came of it; whoever drives it does
the waiting, blocking or not. So there is one client, and two short drivers.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from millrace.client.errors import Busy, RequestRefused, Unreachable, refusal_of
from millrace.model.clock import Chance, system_chance

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Send:
    """A request to be sent."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    timeout_s: float = 30.0
    url: str = ""  #: in place of the path: a presigned URL elsewhere, which must not see the token


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to let pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]  #: names in lower case
    content: bytes


Steps = Generator[Send | Pause, Reply | None, T]


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is repeated, and how long it waits in between: full jitter, doubling up to a cap."""

    tries: int = 4
    first_wait_s: float = 0.2
    max_wait_s: float = 10.0
    chance: Chance = system_chance

    def wait(self, failures: int, asked_for: float | None) -> float:
        """At least what the server asked for, and spread out, so that many clients do not return as one wave."""
        spread = self.chance() * min(self.first_wait_s * (1 << failures - 1), self.max_wait_s)
        return min((asked_for or 0.0) + spread, 60.0)


def exchange(
    retries: Retries, send: Send, *, repeatable: bool, done_when_repeated: tuple[int, ...] = ()
) -> Steps[Reply]:
    """Send until it is answered with a success, or raise what the last try ended in.

    Where no answer came, the call may have had its effect: it is sent again only if it is `repeatable`. An answer in
    `done_when_repeated` then means that an earlier try succeeded. Only a 429 and a full queue say that nothing was
    done: any other fault of the server may have come after the effect.
    """
    silent = False
    for failures in range(1, retries.tries + 1):
        try:
            reply = yield send
        except Unreachable as error:
            silent = silent or error.sent
            if failures == retries.tries or (error.sent and not repeatable):
                raise
            yield Pause(retries.wait(failures, None))
            continue
        if reply is None:
            raise TypeError("a driver answered a request with nothing")
        if reply.status < 300 or (silent and reply.status in done_when_repeated):
            return reply
        refusal: RequestRefused = refusal_of(reply.status, reply.headers, reply.content)
        nothing_done = reply.status == 429 or refusal.code == "queue_full"
        if not isinstance(refusal, Busy) or failures == retries.tries or not (nothing_done or repeatable):
            raise refusal
        silent = silent or not nothing_done
        yield Pause(retries.wait(failures, refusal.retry_after))
    raise AssertionError("unreachable")
