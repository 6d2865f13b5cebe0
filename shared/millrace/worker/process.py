"""A worker as a process of its own: for a laptop, a container or a test. SIGTERM and Ctrl-C end it in order.

It drains every queue that has a target and holds anything, each in a thread, and polls for new work a few times a
second; the sweep runs once a minute, in a thread of its own. What ends one drain ends no other; a queue whose threads
are all stuck in handlers rests for a while, so that they do not pile up.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from threading import Condition, Thread
from types import FrameType

from millrace.model.clock import MINUTE
from millrace.model.errors import MillraceError
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.dictionaries import review_dictionaries
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.samples import keep_samples
from millrace.worker.sweeper import sweep_all
from millrace.worker.time_left import TimeLeft
from millrace.worker.wakeup import Wakeup, handle_wakeup

#: How long runs have to finish after SIGTERM: less than what most supervisors wait before SIGKILL.
GRACE_S = 25.0
POLL_S = 0.2
#: How long a queue rests here whose every thread is stuck.
STUCK_REST_MS = 5 * MINUTE


class Process:
    """Runs until it is stopped."""

    def __init__(self, drainer: QueueDrainer, *, tenant: str | None = None, queues: Iterable[str] = ()) -> None:
        self._drainer = drainer
        self._tenant = tenant
        self._only = frozenset(queues)
        self._time = TimeLeft()
        self._changed = Condition()
        self._threads: dict[tuple[str, str], Thread] = {}
        self._rests_until: dict[tuple[str, str], int] = {}
        self._sweeper: Thread | None = None
        self._swept_at = drainer.runtime.clock()
        self._found: list[WakeRequest] = []  #: queues with work, by the last sweep

    def run(self) -> None:
        """Work until `stop`, then let what runs finish."""
        with self._time.on_stop(self._wake):
            while not self._time.stopped:
                try:
                    self._poll()
                except MillraceError as error:
                    fields = {"action": "list_queues_failed", "error": str(error)}
                    log.warning("The queues could not be listed.", extra=fields)
                with self._changed:
                    if not self._time.stopped:
                        self._changed.wait(POLL_S)
        for thread in (*self._threads.values(), *([self._sweeper] if self._sweeper else [])):
            thread.join()
        self._drainer.runtime.credits.give_back()

    def stop(self, grace_s: float = GRACE_S, reason: str = "stopped") -> None:
        self._time.stop(grace_s, reason)

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT stop it; a second one ends it at once."""

        def stop(number: int, _frame: FrameType | None) -> None:
            self._time.mark(signal.Signals(number).name)
            signal.signal(number, signal.SIG_DFL)
            # A handler must not take locks that the interrupted thread may hold.
            Thread(target=self.stop, args=(GRACE_S, signal.Signals(number).name), daemon=True).start()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _poll(self) -> None:
        """Start a thread for every queue with work that has none, and once a minute one that sweeps."""
        states = self._drainer.runtime.store.list_all_queue_states()
        found, self._found = self._found, []
        for wake_request in found:
            self._start(wake_request)
        for state in states:
            if state.depth:
                self._start(WakeRequest(state.tenant, state.queue))
        now = self._drainer.runtime.clock()
        if now - self._swept_at >= MINUTE and not (self._sweeper and self._sweeper.is_alive()):
            self._swept_at = now
            self._sweeper = Thread(target=self._sweep, args=(states,), name="sweep")
            self._sweeper.start()

    def _start(self, wake_request: WakeRequest) -> None:
        """Start a thread that drains the queue, unless it has one, rests, or is not this process's."""
        key = (wake_request.tenant, wake_request.queue)
        mine = self._tenant in (None, key[0]) and (not self._only or key[1] in self._only)
        running = key in self._threads and self._threads[key].is_alive()
        rests = self._rests_until.get(key, 0) > self._drainer.runtime.clock()
        if mine and not running and not rests and self._drainer.works_on(key[1]):
            self._threads[key] = Thread(target=self._drain, args=(wake_request,), name=f"drain-{key[1]}")
            self._threads[key].start()

    def _drain(self, wake_request: WakeRequest) -> None:
        results = handle_wakeup(self._drainer, Wakeup((wake_request,)), self._time)
        if any(result.reason == "stuck" for result in results):
            fields = {"action": "queue_stuck", "queue": wake_request.queue, "tenant": wake_request.tenant}
            log.error("Every thread of a queue is stuck in a handler; it rests here.", extra=fields)
            until = self._drainer.runtime.clock() + STUCK_REST_MS
            self._rests_until[wake_request.tenant, wake_request.queue] = until

    def _sweep(self, states: list[QueueState]) -> None:
        """Sweep every queue; those that turn out to have work are started by the next poll."""
        self._found = sweep_all(self._drainer, states, self._time)
        keep_samples(self._drainer, states, self._time)
        review_dictionaries(self._drainer, states, self._time)
