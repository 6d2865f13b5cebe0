"""What definitions cost a cold start, and an expression a message.

Cold starts are CPU time, medians over fresh processes, without the start of Python itself; on a busy machine only the
ratios hold.
Run: python -m tests.performance.bench.bench_definitions
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from millrace.definitions import load

COMPILED = Path("infra/definitions.json")
PROCESSES = 9

LOAD = f"from millrace.definitions import load\ndefs = load({str(COMPILED)!r})"
EXTENSION = "from millrace.definitions import cel_engine\ncel_engine.engine()"
ONE_QUEUE = f"{LOAD}\ndefs.queue('WebhookIngress')"
EVERYTHING = f"{LOAD}\nfor name in defs.queues: defs.queue(name)\nfor name in defs.webhooks: defs.webhook(name)"
#: Standard modules that every function imports anyway.
STANDARD = "import base64, binascii, dataclasses, datetime, enum, itertools, json, os, re, typing"
COLD: dict[str, str] = {
    "load compiled definitions, use one queue": ONE_QUEUE,
    "  without the standard library": f"{STANDARD}\nstart = time.process_time()\n{ONE_QUEUE}",
    "  the same, every queue and webhook": f"{STANDARD}\nstart = time.process_time()\n{EVERYTHING}",
    "  the JSON alone, read": f"{STANDARD}\nstart = time.process_time()\njson.load(open({str(COMPILED)!r}))",
    "the CEL extension, where an expression needs it": f"{LOAD}\nstart = time.process_time()\n{EXTENSION}",
    "import lark": "import lark",
    "lark, grammar built, definitions compiled": (
        "from pathlib import Path\nfrom millrace.definitions.language.compiler import compile_files\n"
        "compile_files([(str(path), path.read_bytes()) for path in Path('infra/example/queues').glob('*.millrace')])"
    ),
    "import cel (whole package, with its command line)": "import cel",
    "import celpy (cel-python)": "import celpy",
    "  celpy, one expression compiled": (
        "import celpy\nenvironment = celpy.Environment()\nenvironment.program(environment.compile('payload.a == 1'))"
    ),
}
MESSAGE: dict[str, Any] = {
    "payload": {
        "event": {
            "event_type": "incident.triggered",
            "data": {"id": "PT4KHLK", "title": "The server is on fire", "urgency": "high"},
        },
        "filler": [{"id": index, "text": "x" * 40} for index in range(40)],
    },
    "headers": {"content-type": "application/json"},
    "source_ip": "192.0.2.7",
    "received_at": "2026-11-16T09:30:00Z",
}


def milliseconds(code: str) -> float | None:
    """Median time of some code in fresh processes; None where a package is not installed."""
    script = f"import time\nstart = time.process_time()\n{code}\nprint((time.process_time() - start) * 1000)"
    taken = []
    for _ in range(PROCESSES):
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        if run.returncode:
            return None
        taken.append(float(run.stdout))
    return statistics.median(taken)


def microseconds(run: Callable[[], object]) -> float:
    """Median time of one call, over batches."""
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(300):
            run()
        taken.append((time.perf_counter() - start) / 300 * 1e6)
    return statistics.median(taken)


def cold_starts() -> Table:
    table = Table(title=f"Cold start (median of {PROCESSES} fresh processes)")
    table.add_column("", no_wrap=True)
    table.add_column("CPU ms", justify="right")
    table.add_column("of loading one queue", justify="right")
    first: float | None = None
    for name, code in COLD.items():
        taken = milliseconds(code)
        first = first or taken
        shown = ("not installed", "") if taken is None or first is None else (f"{taken:.1f}", f"x {taken / first:.1f}")
        table.add_row(name, *shown)
    return table


def per_message() -> Table:
    definitions = load(COMPILED)
    target = definitions.queue("WebhookIngress").targets[0]
    inputs = definitions.queue("Payments").targets[0].input
    message_type = definitions.queue("WebhookIngress").message_type
    assert inputs is not None
    assert message_type is not None
    figures = {
        "render a mapping of four fields (forms)": microseconds(lambda: target.render(MESSAGE)),
        "one expression by the CEL engine": microseconds(lambda: inputs["weekend"].evaluate(MESSAGE)),
        "validate a message": microseconds(lambda: message_type.validate(MESSAGE)),
    }
    table = Table("", Column("µs", justify="right"), title="For each message")
    for name, taken in figures.items():
        table.add_row(name, f"{taken:.1f}")
    return table


def main() -> None:
    console = Console()
    console.print(cold_starts())
    console.print(per_message())


if __name__ == "__main__":
    main()
