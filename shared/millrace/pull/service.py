"""What the HTTP APIs work on: the queues of a deployment, its waiting consumers, its seal for claims."""

from __future__ import annotations

import threading

from millrace.definitions import Definitions
from millrace.engine.queue import Queue, Runtime
from millrace.model.audit import AuditLog
from millrace.model.tokens import Tokens
from millrace.pull.claim_handles import Handles
from millrace.pull.dispatcher import Dispatcher

#: Queues kept at hand; the rest are made anew.
KEPT_QUEUES = 1_000


class Service:
    """One process's view of a deployment."""

    def __init__(
        self,
        runtime: Runtime,
        definitions: Definitions,
        tokens: Tokens,
        dispatcher: Dispatcher | None = None,
        audit_log: AuditLog | None = None,
    ) -> None:
        self.runtime = runtime
        self.definitions = definitions
        self.tokens = tokens
        self.dispatcher = dispatcher or Dispatcher()
        self.audit_log = audit_log  #: where changes by operators are noted
        self.handles = Handles(lambda: tokens.claim_key(runtime.entropy(32)))
        self._queues: dict[tuple[str, str], Queue] = {}
        self._lock = threading.Lock()

    def queue(self, tenant: str, name: str) -> Queue:
        """One tenant's queue, the same object each time, so that what it remembers serves. Raises UnknownQueue."""
        with self._lock:
            found = self._queues.get((tenant, name))
            if found is None:
                found = self.runtime.queue(tenant, self.definitions.queue(name).spec)
                if len(self._queues) >= KEPT_QUEUES:
                    self._queues.clear()
                self._queues[tenant, name] = found
        return found

    def notify(self, queue: Queue, at: int = 0) -> None:
        """Tell the queue's waiting consumers that there may be something."""
        self.dispatcher.notify(queue.tenant, queue.spec.name, at)
