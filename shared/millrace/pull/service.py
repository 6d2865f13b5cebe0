"""What the pull API works on: a deployment's queues, its waiting consumers, its seal for claims."""

from __future__ import annotations

from millrace.definitions import Definitions
from millrace.engine.queue import Queue, Runtime
from millrace.http.service import ApiService
from millrace.model.tokens import Tokens
from millrace.pull.claim_handles import Handles
from millrace.pull.dispatcher import Dispatcher


class PullService(ApiService):
    """One process's view of a deployment, for producers and consumers."""

    def __init__(
        self, runtime: Runtime, definitions: Definitions, tokens: Tokens, dispatcher: Dispatcher | None = None
    ) -> None:
        super().__init__(runtime, definitions)
        self.dispatcher = dispatcher or Dispatcher()
        self.handles = Handles(lambda: tokens.claim_key(runtime.entropy(32)))

    def notify(self, queue: Queue, at: int = 0) -> None:
        """Tell the queue's waiting consumers that there may be something, from `at` on."""
        self.dispatcher.notify(queue.tenant, queue.spec.name, at)
