"""An app on the engine in memory: the real code of webhooks, engine and worker, without AWS and without waiting."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.admission.admit import accept
from millrace.admission.schedules import enqueue_due
from millrace.app.compile import NotCompiled, definition_files
from millrace.app.layout import App
from millrace.app.registered import command_modules
from millrace.definitions import Definitions, QueueDefinition, TargetKind
from millrace.definitions.language.compiler import compile_files
from millrace.definitions.loading import load
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.queue import Queue, Runtime
from millrace.engine.results import read_result
from millrace.engine.status import MessageStatus, MessageView, status
from millrace.engine.sweep import sweep
from millrace.history.log import HistoryEvent, HistoryLog
from millrace.model.errors import NotFound
from millrace.model.message import Draft
from millrace.signatures import Secret, SecretSource
from millrace.signatures.presets import scheme_from
from millrace.signatures.signing import deliver
from millrace.stores.memory.keys import MemoryKeys
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.testing.effects import Effects
from millrace.testing.explore import ONE_BY_ONE, Exploration, explore_subject
from millrace.webhooks import Ingress, serve
from millrace.webhooks.sync_commands import commands_of
from millrace.worker.breaker import Breakers
from millrace.worker.commands import Commands, load_commands
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.targets import TargetPlan, target_name
from millrace.worker.targets.chain import QueueDelivery
from millrace.worker.targets.request import Deliver
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import Worker

TENANT = "default"
#: Of every webhook; base64 and hex readers take it too.
SECRET = "c2VjcmV0IG9mIHRoZSB0ZXN0cyE="  # noqa: S105 (of tests)
#: Where the clock of a test begins: 2026-01-01T00:00:00Z.
BEGINNING_MS = 1_767_225_600_000
#: A message that makes another, which makes another: a test that never comes to an end is wrong.
MOST_ROUNDS = 1_000


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """What a sender is answered."""

    status: int
    document: Any

    @property
    def message_id(self) -> str:
        return str(self.document["message_id"])


@dataclass(frozen=True, slots=True)
class DeadLetterSummary:
    """A dead letter, as far as a test asks."""

    message_id: str
    reason: str
    error: str
    attempts: int


class AppUnderTest:
    """One app with empty queues. `targets` stand for http and lambda targets, by kind."""

    def __init__(self, root: Path, *, targets: Mapping[TargetKind, Deliver] | None = None) -> None:
        self.app = App.find(root)
        self.now_ms = BEGINNING_MS
        self.definitions = _compiled(self.app)
        self._commands = load_commands(command_modules(os.environ)).copy()
        _demand_commands(self.definitions, self._commands)
        hooks = map(self.definitions.webhook, self.definitions.webhooks)
        self.secrets = {secret.name: SECRET for hook in hooks for secret in hook.secrets if secret.source == "env"}
        self._lines: list[str] = []
        self.keys = MemoryKeys()  #: of encrypted queues: `disable`, `enable` or `delete` one by its name
        self.runtime = Runtime(
            MemoryStore(lambda: self.now_ms),
            MemoryBlobs(),
            clock=lambda: self.now_ms,
            history=HistoryLog(self._lines.append),
            keys=self.keys,
        )
        self._deliveries: dict[TargetKind, Deliver] = {
            TargetKind.COMMAND: self._commands,
            TargetKind.QUEUE: QueueDelivery(self.definitions.queue),
            **(targets or {}),
        }
        self._drainer = QueueDrainer(self.runtime, self.definitions, self._deliveries, ONE_BY_ONE)
        self._ingress = Ingress(
            self.definitions,
            self.runtime,
            SecretSource(lambda: self.now_ms, environ=self.secrets),
            run_command=commands_of(",".join(command_modules(os.environ))),
        )

    def replace_command(self, name: str, function: Callable[..., Any]) -> None:
        """Let another function stand for a command in this test: one that fails, or counts. Raises NotFound."""
        self._commands.replace(name, function)

    def queue(self, name: str) -> Queue:
        return self._drainer.queue(TENANT, name)

    def send_webhook(
        self, webhook: str, body: Any, headers: Mapping[str, str] | None = None, *, delivery_id: str = ""
    ) -> WebhookAnswer:
        """Post to a webhook, signed as its provider signs. `body` is bytes, or anything that JSON can say."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url, query = f"https://hooks.test/hook/{webhook}", ""
        given = {"content-type": "application/json", **(headers or {})}
        settings = self.definitions.webhook(webhook).signature_settings
        if settings is not None:
            secret = next(self.secrets[s.name] for s in self.definitions.webhook(webhook).secrets if s.source == "env")
            request = deliver(
                scheme_from(settings),
                Secret("test", secret),
                url,
                data,
                self.now_ms,
                headers=given,
                delivery_id=delivery_id,
            )
            given = {name: request.headers.one(name) for name in request.headers}
            data, query = request.body, request.query  # some carry a time or the proof there
        event = {
            "version": "2.0",
            "rawPath": f"/hook/{webhook}",
            "rawQueryString": query,
            "headers": given,
            "body": base64.b64encode(data).decode(),
            "isBase64Encoded": True,
            "requestContext": {"http": {"method": "POST", "sourceIp": "192.0.2.1"}, "domainName": "hooks.test"},
        }
        response = serve(self._ingress, event).response
        return WebhookAnswer(response.status, json.loads(response.body) if response.body else None)

    def enqueue(self, queue: str, body: Any, *, key: str = "", idempotency_key: str | None = None) -> str:
        """Enqueue as the API does; the message's id. Raises InvalidMessage for what its type does not allow."""
        draft = _draft(body, key, idempotency_key)
        return accept(self.queue(queue), self.definitions.queue(queue), draft).message_id

    def drain(self) -> None:
        """Run everything that is due now, and what that makes due; retries wait until the clock is moved."""
        for _ in range(MOST_ROUNDS):
            worked_on = [name for name in self.definitions.queues if self._drainer.works_on(name)]
            if not sum(map(self._drain, worked_on)):
                return
        raise AssertionError(f"After {MOST_ROUNDS} rounds there is still something due: does a queue feed itself?")

    def _drain(self, name: str) -> int:
        result = self._drainer.drain(WakeRequest(TENANT, name), TimeLeft(lambda: 60_000))
        return 0 if result is None else result.counts["started"]

    def advance(self, seconds: float) -> None:
        """Move the clock; leases end, retries come due and schedules enqueue as they would."""
        self.now_ms += round(seconds * 1000)
        enqueue_due(self.runtime, self.definitions, TENANT)
        for name in self.definitions.queues:
            sweep(self.queue(name))

    def drain_to_the_end(self) -> None:
        """Drain, and move the clock to the next retry, until every message is done or dead."""
        for _ in range(MOST_ROUNDS):
            self.drain()
            if all(self.depth(name) == 0 for name in self.definitions.queues if self._drainer.works_on(name)):
                return
            self.advance(60)
        raise AssertionError("There are messages that never come to an end.")

    def explore(
        self,
        queue: str,
        body: Any,
        *,
        effects: Effects,
        setup: Callable[[], object] = lambda: None,
        faults: int = 1,
        replay: Sequence[int] | None = None,
    ) -> Exploration:
        """One message through the app's queues and commands under every schedule of faults, as `explore` does.

        On queues of its own: nothing of it is in this app's afterwards. Raises EffectsDiffer.
        """
        subject = _AppSubject(self.definitions, self._deliveries, queue, _draft(body))
        return explore_subject(subject, effects, setup=setup, faults=faults, replay=replay)

    def depth(self, queue: str) -> int:
        """How many messages of a queue are unfinished."""
        self.runtime.credits.give_back()
        return self.queue(queue).state(fresh=True).depth

    def message(self, message_id: str) -> MessageView:
        """A message wherever it is. Raises AssertionError for an id that no queue knows."""
        for name in self.definitions.queues:
            try:
                return status(self.queue(name), message_id)
            except NotFound:
                continue
        raise AssertionError(f"No queue knows the message {message_id}.")

    def history(self, message_id: str) -> list[str]:
        """What happened to a message, in order: accepted, started, failed, released, done, dead, purged, stale."""
        lines = map(json.loads, self._lines)
        return [
            line["event"]
            for line in lines
            if any(row[0] == message_id for row in line["messages"]) and line["event"] != HistoryEvent.ENDING
        ]

    def assert_status(self, message_id: str, expected: str) -> MessageView:
        """The message, where its status is as expected. Raises AssertionError that says what it is, and why."""
        found = self.message(message_id)
        if found.status.value != expected:
            errors = "".join(f" Attempt {attempt.number}: {attempt.error}." for attempt in found.history)
            raise AssertionError(
                f"The message {message_id} is {found.status.value}; expected: {expected}.{errors} "
                f"Its history: {', '.join(self.history(message_id))}."
            )
        return found

    def result(self, message_id: str) -> Any:
        """What a done message gave. Raises AssertionError that says where it is instead."""
        found = self.assert_status(message_id, MessageStatus.DONE.value)
        snapshot = read_result(self.queue(found.message.queue), found.result)
        return json.loads(snapshot) if snapshot else None

    def dead_letters(self, queue: str) -> list[DeadLetterSummary]:
        """The dead letters of a queue, oldest first."""
        page = list_dead_letters(self.queue(queue), newest_first=False, limit=100)
        return [
            DeadLetterSummary(found.message.id, found.reason.value, found.error, found.attempts) for found in page.items
        ]


def _draft(body: Any, key: str = "", idempotency_key: str | None = None) -> Draft:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Draft(data, content_type="application/json", key=key, idempotency_key=idempotency_key)


@dataclass(frozen=True, slots=True)
class _AppSubject:
    """One message for an app, and all that becomes of it in its queues."""

    definitions: Definitions
    deliveries: Mapping[TargetKind, Deliver]
    queue: str
    draft: Draft

    @property
    def lease_ms(self) -> int:
        return max(self.definitions.queue(name).spec.lease_ms for name in self.definitions.queues)

    def enqueue(self, runtime: Runtime) -> None:
        definition = self.definitions.queue(self.queue)
        accept(runtime.queue(TENANT, definition.spec), definition, self.draft)

    def workers(self, runtime: Runtime) -> list[Worker]:
        found = map(self.definitions.queue, self.definitions.queues)
        return [self._worker(runtime, definition) for definition in found if definition.targets]

    def _worker(self, runtime: Runtime, definition: QueueDefinition) -> Worker:
        queue = runtime.queue(TENANT, definition.spec)
        breakers = Breakers(queue, map(target_name, definition.targets))
        return Worker(queue, TargetPlan(definition, self.deliveries, breakers), settings=ONE_BY_ONE)


def _compiled(app: App) -> Definitions:
    compilation = compile_files(definition_files(app))
    if compilation.definitions is None:
        raise NotCompiled("\n".join(map(str, compilation.errors)))
    return load(compilation.text.encode())


def _demand_commands(definitions: Definitions, commands: Commands) -> None:
    """A definition whose command is missing would only fail with its first message."""
    named = {
        target.name
        for queue in map(definitions.queue, definitions.queues)
        for target in queue.targets
        if target.kind is TargetKind.COMMAND
    }
    missing = sorted(named - set(commands.names))
    if missing:
        raise NotCompiled(f"No module registers {', '.join(missing)}. Registered: {', '.join(commands.names)}.")
