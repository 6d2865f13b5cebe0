"""Senders that behave as providers do: a post without a good answer is posted again under the same delivery id."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millrace.model.clock import system_clock
from millrace.signatures import Secret, preset
from millrace.signatures.signing import sign

SCHEME = preset("standard_webhooks")
TIMEOUT_S = 8.0
PAUSE_S = (0.1, 0.8)
ACCEPTED = (200, 202)
#: One message in so many fails for good, is rejected, fails once.
FATES = (("fails", 40), ("rejects", 60), ("stumbles", 12))


def behaviour(n: int) -> str:
    return next((name for name, one_in in FATES if n % one_in == one_in - 1), "good")


@dataclass(slots=True)
class Sent:
    """What the senders saw, all together."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    ids: dict[tuple[str, int], set[str]] = field(default_factory=dict)  #: (hook, n) → message ids of good answers
    answers: Counter[str] = field(default_factory=Counter)  #: status, or "no answer"
    repeats: int = 0
    given_up: int = 0
    examples: dict[str, str] = field(default_factory=dict)  #: status → what was said, the first time

    def note(self, hook: str, n: int, outcome: str, message_id: str, said: str) -> None:
        with self.lock:
            self.answers[outcome] += 1
            self.examples.setdefault(outcome, said[:300])
            if message_id:
                self.ids.setdefault((hook, n), set()).add(message_id)

    def again(self) -> None:
        with self.lock:
            self.repeats += 1

    @property
    def accepted(self) -> set[str]:
        with self.lock:
            return {message_id for ids in self.ids.values() for message_id in ids}


class Sender(threading.Thread):
    """Posts its share at a steady pace, each message until it is accepted and only then the next."""

    def __init__(
        self, hook: str, key: str, numbers: Sequence[int], ports: Sequence[int], every_s: float, secret: str, sent: Sent
    ) -> None:
        super().__init__(name=f"sender-{hook}-{key}", daemon=True)
        self.hook, self.key, self.numbers, self.ports = hook, key, numbers, ports
        self.every_s = every_s
        self.secret = Secret("chaos", secret)
        self.sent = sent
        self.chance = random.Random(f"{hook}/{key}")
        self.over = threading.Event()  #: nothing new is posted
        self.gone = threading.Event()  #: nothing is repeated either

    def run(self) -> None:
        begun = time.monotonic()
        for turn, n in enumerate(self.numbers):
            self.over.wait(max(0.0, begun + turn * self.every_s - time.monotonic()))
            if self.over.is_set():
                return
            self._post_until_accepted(n)

    def _post_until_accepted(self, n: int) -> None:
        document = {"n": n, "key": self.key, "behaviour": behaviour(n), "pad": "x" * 300}
        body = json.dumps(document).encode()
        for number in range(1_000):
            if number:
                self.sent.again()
            outcome, answer, said = self._post(n, body)
            good = outcome in map(str, ACCEPTED)
            self.sent.note(self.hook, n, outcome, str(answer.get("message_id", "")) if good else "", said)
            if good:
                return
            if self.gone.wait(self.chance.uniform(*PAUSE_S)):
                break
        self.sent.given_up += 1

    def _post(self, n: int, body: bytes) -> tuple[str, dict[str, Any], str]:
        signed = sign(SCHEME, self.secret, body, system_clock(), delivery_id=f"{self.hook}-{n}")
        headers = {"content-type": "application/json", **signed}
        connection = http.client.HTTPConnection("127.0.0.1", self.chance.choice(self.ports), timeout=TIMEOUT_S)
        try:
            connection.request("POST", f"/hook/chaos/{self.hook}", body, headers)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException):
            return "no answer", {}, ""
        finally:
            connection.close()
        document: dict[str, Any] = {}
        with contextlib.suppress(ValueError):
            document = json.loads(said)
        return str(answer.status), document, said.decode("utf-8", "replace")
