"""Ten thousand messages that the engine itself has lived through, in memory and in virtual time, with failures.

Their lives come out as the lake would hold them: from the items of the store, and from the entries that were deleted.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.queue import Queue, Runtime
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.spark.data.facts import MICROS, Fact, fact_of_item
from millrace.spark.data.lives import Views, lives_of
from millrace.spark.data.message_rows import life_row
from millrace.stores.dynamodb.dead_letters import dead_letter_item
from millrace.stores.dynamodb.items import entry_item, location_item, message_item, result_item
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Clock

MINUTE, HOUR = 60_000, 3_600_000
START = 1_794_873_600_000  # 17 November 2026, midnight
QUEUES = {"PaymentNotices": 0.5, "GitHubEvents": 0.32, "OutboundMail": 0.18}
SENDERS = {"PaymentNotices": ("webhook:Stripe", "client:billing"), "GitHubEvents": ("webhook:GitHub",),
           "OutboundMail": ("client:crm", "client:shop", "bulk")}  # fmt: skip
FAILURES = (
    ("ConnectionError", "no route to 10.0.{n}.7"),
    ("Timeout", "no answer within {n} s"),
    ("HTTPError", "POST https://mail.example/send answered 503"),
    ("KeyError", "'account {n} is not in the ledger'"),
)


def live_through(messages: int = 10_000, seed: int = 7) -> list[dict[str, Any]]:
    """The lives of so many messages over a day, as rows of the lake."""
    return _Day(messages, seed).rows()


class _Day:
    def __init__(self, messages: int, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = Clock(START)
        self.store = MemoryStore(clock=self.clock)
        self.runtime = Runtime(
            self.store,
            MemoryBlobs(),
            clock=self.clock,
            entropy=random.Random(seed + 1).randbytes,
            chance=random.Random(seed + 2).random,
        )
        self.facts: dict[str, list[Fact]] = {}
        self.bodies: list[bytes] = []
        arrivals = sorted(self._moment() for _ in range(messages))
        self._live(arrivals)

    def _moment(self) -> int:
        """More by day than by night, and a burst at two."""
        if self.chance.random() < 0.12:
            return START + 14 * HOUR + int(self.chance.expovariate(1 / (25 * MINUTE)))
        return START + int(min(23.9, max(0.0, self.chance.gauss(12.5, 4.6))) * HOUR)

    @cache  # noqa: B019 (lives as long as the day)
    def queue(self, name: str) -> Queue:
        spec = QueueSpec(name)
        return self.runtime.queue("acme", replace(spec, delivery=replace(spec.delivery, max_attempts=4)))

    def _live(self, arrivals: list[int]) -> None:
        """What happens in its order: messages come, runs end, workers ask for more every ten seconds."""
        tie = count(1)
        polls = range(START, START + 24 * HOUR, 10_000)
        events: list[tuple[int, int, Any]] = [(at, next(tie), None) for at in arrivals]
        events += [(at, next(tie), name) for at in polls for name in QUEUES]
        heapify(events)
        while events:
            at, _, what = heappop(events)
            self.clock.now = max(self.clock.now, at)
            if what is None:
                self._send()
            elif isinstance(what, str):
                for one in claim(self.queue(what), owner=f"worker-{what}", limit=5).claims:
                    lasts = 40 + int(min(25_000, self.chance.expovariate(1 / 900)))
                    heappush(events, (self.clock.now + lasts, next(tie), (self.queue(what), one)))
            else:
                self._end(*what)

    def _send(self) -> None:
        name = self.chance.choices(list(QUEUES), list(QUEUES.values()))[0]
        again = self.bodies and self.chance.random() < 0.03
        body = self.chance.choice(self.bodies[-200:]) if again else self._body()
        self.bodies.append(body)
        source = self.chance.choice(SENDERS[name])
        key = f"account-{int(self.chance.paretovariate(1.3)) % 40}"
        enqueue(self.queue(name), Draft(body, source=source, key=key))

    def _body(self) -> bytes:
        size = min(6_000, int(self.chance.paretovariate(1.1) * 120))
        return json.dumps({"n": self.chance.randrange(10**9), "text": "x" * size}).encode()

    def _end(self, queue: Queue, claimed: Any) -> None:
        name, hour = queue.spec.name, (self.clock.now - START) / HOUR
        down = name == "OutboundMail" and 15 <= hour < 16.5
        kind = 2 if down else self.chance.choices(range(4), (5, 3, 1, 1))[0]
        poison = hash_of(claimed.message.id) % 97 == 0
        if down or poison or self.chance.random() < 0.05:
            error_type, text = FAILURES[3 if poison else kind]
            error = text.format(n=self.chance.randrange(1, 250))
            nack(queue, claimed.entry, claimed.message, RunFailure(error_type, error))
            return
        if ack(queue, [claimed.entry], [b'{"ok":true}']) == [None]:
            gone = fact_of_item(entry_item(claimed.entry), self.clock.now * MICROS, gone=True)
            if gone is not None:
                self.facts.setdefault(gone.id, []).append(gone)

    def rows(self) -> list[dict[str, Any]]:
        at = self.clock.now * MICROS
        for item in self._items():
            fact = fact_of_item(item, at)
            if fact is not None:
                self.facts.setdefault(fact.id, []).append(fact)
        views = Views((at,), ((START * MICROS - 10**9, at),))
        read = self.runtime.bodies.read
        found = [lives_of(id_, facts, views, read=read).lives for id_, facts in sorted(self.facts.items())]
        return [life_row(life) for lives in found for life in lives]

    def _items(self) -> list[dict[str, Any]]:
        store = self.store
        items = [message_item(message) for message in store.messages.values()]
        items += [location_item(location) for location in store.location.values()]
        items += [result_item(result) for result in store.results.values()]
        items += [entry_item(entry) for entry in store.entries.values()]
        items += [dead_letter_item(one) for of_queue in store.dead_letters.values() for one in of_queue.values()]
        return items


def hash_of(text: str) -> int:
    return sum(ord(letter) * place for place, letter in enumerate(text))
