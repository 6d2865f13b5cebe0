"""Metrics for Prometheus: what ran here and how the queues stand, in series whose number is known beforehand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import prometheus_client
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from functions.worker.__main__ import _serve_metrics
from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, reject
from millrace.engine.inspect import stats
from millrace.engine.operate import pause
from millrace.engine.queue import Queue
from millrace.handlers.controls import Reject, Retry, Snooze, Unavailable
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Draft
from millrace.worker import prometheus
from millrace.worker.drainer import QueueDrainer
from millrace.worker.prometheus import FRESH_MS, MEASURE_MS, QueueGauges, RunMetrics, registry_with
from tests.conftest import Bench
from tests.worker.conftest import drain, put
from tests.worker.definitions import TYPE, compiled

QUEUES = f"queue Jobs {{ {TYPE}  drained_by: api }} queue Empty {{ {TYPE}  drained_by: api }}"
Series = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return compiled(QUEUES)


def series(registry: Any) -> Series:
    """Name, queue and other labels → value, of everything that is exposed."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    found: Series = {}
    for one in (sample for family in families for sample in family.samples):
        rest = [value for name, value in sorted(one.labels.items()) if name != "queue"]
        found[one.name, *([one.labels["queue"]] if "queue" in one.labels else []), *rest] = one.value
    return found


def jobs(bench: Bench, definitions: Definitions, tenant: str = "") -> Queue:
    return bench.runtime.queue(tenant or bench.tenant, definitions.queue("Jobs").spec)


def standing(bench: Bench, definitions: Definitions) -> Callable[[], Series]:
    registry = registry_with(RunMetrics(), QueueGauges(bench.runtime, definitions))
    return lambda: series(registry)


# -- runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (None, "succeeded"),
        (ValueError("the card 4111"), "failed"),
        (Reject("no"), "rejected"),
        (Snooze(after=5), "snoozed"),
        (Retry(after=5), "retried"),
        (Unavailable(reason="down"), "unavailable"),
    ],
)
def test_a_run_is_counted_by_what_became_of_it(memory_bench: Bench, raised: Exception | None, outcome: str) -> None:
    runs, queue = RunMetrics(), memory_bench.queue()
    put(queue)
    memory_bench.clock.forward(2_000)

    def work(_context: Any) -> None:
        memory_bench.clock.forward(300)
        if raised:
            raise raised

    drain(queue, work, middleware=(runs.middleware,))
    found = series(runs.registry)
    assert {name: value for name, value in found.items() if name[0] == "millrace_runs_total"} == {
        ("millrace_runs_total", "Jobs", outcome): 1
    }
    assert (found["millrace_run_seconds_sum", "Jobs"], found["millrace_wait_seconds_sum", "Jobs"]) == (0.3, 2.0)
    assert found["millrace_run_seconds_bucket", "Jobs", "0.25"] == 0
    assert found["millrace_run_seconds_bucket", "Jobs", "0.5"] == 1


def test_the_number_of_series_is_known_beforehand(memory_bench: Bench) -> None:
    """Whatever senders and handlers say: messages, keys, tenants and errors are no labels."""
    runs = RunMetrics()
    for number in range(30):
        queue = memory_bench.runtime.queue(f"tenant-{number}", memory_bench.queue().spec)
        put(queue, idempotency_key=f"k{number}", correlation_id=f"c{number}")

        def fail(_context: Any, number: int = number) -> None:
            raise type(f"Error{number}", (Exception,), {})(f"text {number}")

        drain(queue, fail, middleware=(runs.middleware,))
    found = series(runs.registry)
    assert found["millrace_runs_total", "Jobs", "failed"] == 30
    assert {labels[1] for labels in found} == {"Jobs"}


# -- queues ---------------------------------------------------------------------------------------------------------


def test_a_queue_stands_as_its_tables_say_over_all_tenants(bench: Bench, definitions: Definitions) -> None:
    for tenant in (f"{bench.tenant}-a", f"{bench.tenant}-b"):
        queue = jobs(bench, definitions, tenant)
        for _ in range(3):
            enqueue(queue, Draft(b'{"n": 1}'))
        _, doomed = claim(queue, owner="w", limit=2).claims
        reject(queue, doomed.entry, doomed.message, RunFailure("Reject", "no"))
        queue.runtime.credits.give_back()
    bench.clock.forward(7_000)
    found = standing(bench, definitions)()
    assert found["millrace_store_up",] == 1
    if bench.store.__class__.__name__ == "MemoryStore":  # the engine's tables are shared with other tests
        assert found["millrace_queue_depth", "Jobs"] == 4
        assert found["millrace_queue_in_flight", "Jobs"] == 2
        assert found["millrace_dead_letters", "Jobs"] == 2
        assert found["millrace_queue_oldest_age_seconds", "Jobs"] == 7
    assert found["millrace_queue_depth", "Jobs"] >= 4
    assert found["millrace_queue_depth", "Empty"] == 0
    assert {labels[1] for labels in found if len(labels) > 1} == {"Jobs", "Empty"}


def test_a_paused_queue_grows_old_on_purpose(memory_bench: Bench, definitions: Definitions) -> None:
    queue = jobs(memory_bench, definitions)
    enqueue(queue, Draft(b'{"n": 1}'))
    pause(queue, "olga")
    memory_bench.clock.forward(60_000)
    assert standing(memory_bench, definitions)()["millrace_queue_oldest_age_seconds", "Jobs"] == 0


def test_whoever_asks_often_reads_the_tables_seldom(
    memory_bench: Bench, definitions: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    listed = memory_bench.store.list_all_queue_states

    def noted() -> Any:
        asked.append(memory_bench.clock())
        return listed()

    monkeypatch.setattr(memory_bench.store, "list_all_queue_states", noted)
    look = standing(memory_bench, definitions)
    assert not asked, "registering it measures nothing"
    enqueue(jobs(memory_bench, definitions), Draft(b'{"n": 1}'))
    for _ in range(3):
        assert look()["millrace_queue_depth", "Jobs"] == 1
    assert len(asked) == 1
    memory_bench.clock.forward(FRESH_MS)
    look()
    assert len(asked) == 2


def test_tables_that_do_not_answer_are_told_and_no_old_figure_is_shown(
    memory_bench: Bench, definitions: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = standing(memory_bench, definitions)
    look()
    memory_bench.clock.forward(FRESH_MS)

    def silent() -> Any:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(memory_bench.store, "list_all_queue_states", silent)
    assert look() == {("millrace_store_up",): 0}


def test_a_measurement_ends_and_the_next_goes_on_with_the_others(
    memory_bench: Bench, definitions: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = [f"t{number}" for number in range(4)]
    for tenant in tenants:
        enqueue(jobs(memory_bench, definitions, tenant), Draft(b'{"n": 1}'))
    measured: list[str] = []

    def slow(queue: Queue) -> Any:
        measured.append(queue.tenant)
        memory_bench.clock.forward(MEASURE_MS // 2)
        return stats(queue)

    monkeypatch.setattr(prometheus, "stats", slow)
    look = standing(memory_bench, definitions)
    found = look()
    assert found["millrace_queue_depth", "Jobs"] == 4, "counters are always read"
    assert ("millrace_queue_in_flight", "Jobs") not in found, "half a count is no count"
    memory_bench.clock.forward(FRESH_MS)
    look()
    assert measured == tenants


# -- serving --------------------------------------------------------------------------------------------------------


def test_it_is_served_on_this_machine_alone(memory_bench: Bench, definitions: Definitions) -> None:
    """As `python -m functions.worker --metrics-port` does it."""
    bound: list[Any] = []
    real = prometheus_client.start_http_server

    def noted(port: int, **given: Any) -> Any:
        made = real(port, **given)
        bound.append(made[0].server_address)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prometheus_client, "start_http_server", noted)
        patch.setattr(prometheus, "run_metrics", RunMetrics)
        stop = _serve_metrics(QueueDrainer(memory_bench.runtime, definitions, {}), 0, prometheus.LOOPBACK)
    try:
        ((host, port),) = bound
        assert host == "127.0.0.1"
        assert "millrace_queue_depth" in httpx.get(f"http://127.0.0.1:{port}/metrics").text
    finally:
        stop()


def test_nothing_is_imported_where_nobody_asks() -> None:
    program = "import sys, json; import functions.worker.handler, millrace.worker.prometheus, millrace.worker.process;"
    program += "print(json.dumps('prometheus_client' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
