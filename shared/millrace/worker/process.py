"""A worker as a process of its own: for a laptop, a container or a test. SIGTERM and Ctrl-C end it in order.

It drains every queue that has a target and holds anything, each in a thread, and polls for new work a few times a
second; the sweep runs once a minute.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from threading import Condition, Thread
from types import FrameType

from millrace.model.clock import MINUTE
from millrace.model.errors import MillraceError
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.time_left import TimeLeft
from millrace.worker.wakeup import Wakeup, handle_wakeup

#: How long runs have to finish after SIGTERM: less than what most supervisors wait before SIGKILL.
GRACE_S = 25.0
POLL_S = 0.2


class Process:
    """Runs until it is stopped."""

    def __init__(self, drainer: QueueDrainer, *, tenant: str | None = None, queues: Iterable[str] = ()) -> None:
        self._drainer = drainer
        self._tenant = tenant
        self._only = frozenset(queues)
        self._time = TimeLeft()
        self._changed = Condition()
        self._threads: dict[tuple[str, str], Thread] = {}
        self._swept_at = drainer.runtime.clock()

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
        for thread in self._threads.values():
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
        """Start a thread for every queue with work that has none."""
        for state in self._drainer.runtime.store.list_all_queue_states():
            mine = self._tenant in (None, state.tenant) and (not self._only or state.queue in self._only)
            key = (state.tenant, state.queue)
            running = key in self._threads and self._threads[key].is_alive()
            if mine and state.depth and not running and self._drainer.works_on(state.queue):
                self._threads[key] = Thread(
                    target=self._handle_wakeup, args=(WakeRequest(*key),), name=f"drain-{state.queue}"
                )
                self._threads[key].start()
        if self._drainer.runtime.clock() - self._swept_at >= MINUTE:
            self._swept_at = self._drainer.runtime.clock()
            handle_wakeup(self._drainer, Wakeup(sweep=True), self._time)

    def _handle_wakeup(self, wake_request: WakeRequest) -> None:
        handle_wakeup(self._drainer, Wakeup((wake_request,)), self._time)
