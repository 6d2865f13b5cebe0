"""A long row of malformed calls through the ingress: `python -m tests.webhooks.soak --requests 100000`.

Prints what they were answered with and the slowest one's CPU time; ends with 1 if any answer was a fault of ours.
"""

from __future__ import annotations

import argparse
import collections
import resource
import sys
import time

from millrace.engine.queue import Runtime
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.webhooks import serve
from tests.webhooks.gate import open_gate
from tests.webhooks.hostile import ALLOWED, hostile_events

NOW = 1_800_000_000_000
#: A new store for each stretch, so that memory tells of the ingress and not of what it stored.
STRETCH = 2_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    statuses: collections.Counter[int] = collections.Counter()
    times: list[float] = []
    faults: list[str] = []
    for stretch, start in enumerate(range(0, given.requests, STRETCH)):
        runtime = Runtime(MemoryStore(), MemoryBlobs(), clock=lambda: NOW)
        ingress = open_gate(runtime, "soak", run_command=lambda _name, value, _id: value)
        seed = given.seed * 1_000_000 + stretch
        for number, event in enumerate(hostile_events(seed, min(STRETCH, given.requests - start), NOW)):
            before = time.process_time()
            served = serve(ingress, event)
            times.append(time.process_time() - before)
            statuses[served.response.status] += 1
            if served.error is not None or served.response.status not in ALLOWED:
                faults.append(f"seed {seed}, call {number}: {served.response.status} {served.error!r}")
        if sys.stderr.isatty():
            print(f"\r{start + STRETCH} of {given.requests}", end="", file=sys.stderr)
    times.sort()
    print(f"requests   {len(times)}")
    for status, count in sorted(statuses.items()):
        print(f"  {status}      {count}")
    print(f"faults     {len(faults)}")
    for fault in faults[:20]:
        print(f"  {fault}")
    ranks = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    shown = ", ".join(f"{name} {times[int((len(times) - 1) * rank)] * 1000:.2f}" for name, rank in ranks.items())
    print(f"CPU ms     {shown}")
    print(f"peak RSS   {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
