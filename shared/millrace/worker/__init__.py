"""The worker: claim, run and commit in one pipeline; and the targets that messages are delivered to.

fetch (batch claim) ─► buffer ─► run (bounded threads) ─► commit (batch ack)
                                    │ middleware ► handler ► targets
          heartbeat: extends claims · execution timeout · slot

Worker(queue, handler).run()                      drains one queue with any handler
QueueDrainer(runtime, definitions, …).drain(…)    drains it with the targets of its definition
"""

from millrace.handlers.controls import ExecutionTimeout, Reject, Retry, Snooze
from millrace.worker.commands import Commands, command
from millrace.worker.context import RunContext
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import DrainResult, Worker, WorkerSettings

__all__ = [
    "Commands",
    "DrainResult",
    "ExecutionTimeout",
    "Reject",
    "Retry",
    "RunContext",
    "Snooze",
    "TimeLeft",
    "Worker",
    "WorkerSettings",
    "command",
]
