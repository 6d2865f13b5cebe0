"""What every HTTP API works on: the queues of a deployment."""

from __future__ import annotations

import threading

from millrace.definitions import Definitions
from millrace.engine.queue import Queue, Runtime
from millrace.http.request import ApiRequest

#: Queues kept at hand; the rest are made anew.
KEPT_QUEUES = 1_000


class ApiService:
    """One process's view of a deployment."""

    def __init__(self, runtime: Runtime, definitions: Definitions) -> None:
        self.runtime = runtime
        self.definitions = definitions
        self._queues: dict[tuple[str, str], Queue] = {}
        self._lock = threading.Lock()

    def queue(self, tenant: str, name: str) -> Queue:
        """One tenant's queue, the same object each time, so that what it has cached serves. Raises UnknownQueue."""
        with self._lock:
            found = self._queues.get((tenant, name))
            if found is None:
                found = self.runtime.queue(tenant, self.definitions.queue(name).spec)
                if len(self._queues) >= KEPT_QUEUES:
                    self._queues.clear()
                self._queues[tenant, name] = found
        return found

    def queue_of(self, request: ApiRequest) -> Queue:
        """The queue that a request's path names. Raises UnknownQueue."""
        return self.queue(request.tenant, request.path["queue"])
