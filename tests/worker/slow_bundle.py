"""A command that says when it has begun, and ends once the process was asked to stop."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from millrace.worker import command

_stop_seen = threading.Event()


@command("Slow.Work")
def work(_given: Any) -> None:
    with open(os.environ["STARTED"], "w") as started:  # noqa: PTH123 (a pipe, not a file)
        started.write("+")
    _stopping().wait(60)


def _stopping() -> threading.Event:
    """Set once the process has a thread that stops it: the signal was seen."""

    def watch() -> None:
        while signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL and (
            signal.getsignal(signal.SIGINT) is not signal.SIG_DFL
        ):
            _stop_seen.wait(0.02)
        _stop_seen.set()

    threading.Thread(target=watch, daemon=True).start()
    return _stop_seen
