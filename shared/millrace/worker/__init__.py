"""Work: claim, run, commit, in one pipeline; and the targets that the work is done on.

fetch (batch claim) ─► buffer ─► run (bounded threads) ─► commit (batch ack)
                                    │ middleware ► handler ► targets
          keeper: heartbeat · execution timeout · slot

Worker(queue, handler).run()                      drains one queue with any handler
Station(runtime, definitions, …).drain(…)         drains it with the targets of its definition
"""

from millrace.worker.commands import Commands, command
from millrace.worker.context import Context
from millrace.worker.controls import ExecutionTimeout, Reject, Retry, Snooze
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import Drained, Worker, WorkerSettings

__all__ = [
    "Commands",
    "Context",
    "Drained",
    "ExecutionTimeout",
    "Reject",
    "Retry",
    "Snooze",
    "TimeLeft",
    "Worker",
    "WorkerSettings",
    "command",
]
