"""What the sweep measures for the alarms, and secrets that a variable names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.definitions import load
from millrace.engine.claim import claim
from millrace.engine.counters import flush
from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, reject
from millrace.engine.operate import pause
from millrace.engine.queue import Runtime
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Draft
from millrace.signatures import SecretSource
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.worker.drainer import QueueDrainer
from millrace.worker.metrics import emit_gauges
from millrace.worker.time_left import TimeLeft
from tests.conftest import NOON, Clock


@pytest.fixture
def drainer(clock: Clock) -> QueueDrainer:
    return QueueDrainer(Runtime(MemoryStore(), MemoryBlobs(), clock=clock), load("infra/definitions.json"), {})


def emitted(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [
        {name: value for name, value in document.items() if name != "_aws"}
        | {"namespace": document["_aws"]["CloudWatchMetrics"][0]["Namespace"]}
        for document in documents
    ]


def measure(drainer: QueueDrainer, time_left: TimeLeft | None = None) -> None:
    emit_gauges(drainer, drainer.runtime.store.list_all_queue_states(), time_left or TimeLeft())


def test_an_empty_deployment_still_says_that_the_sweep_runs(
    drainer: QueueDrainer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Millrace/one")
    measure(drainer)
    (found,) = emitted(capsys)
    assert found == {
        "service": "queues", "namespace": "Millrace/one",
        "Depth": [0.0], "InFlight": [0.0], "DeadLetters": [0.0], "OldestAge": [0.0],
    }  # fmt: skip


def test_each_queue_is_measured_and_all_of_them_together(
    drainer: QueueDrainer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    enqueue(drainer.queue("a", "WebhookIngress"), Draft(b"{}"))
    clock.forward(30_000)
    enqueue(drainer.queue("a", "Payments"), Draft(b"{}", key="k"))
    clock.forward(10_000)
    measure(drainer)
    found = {document.get("queue", "all"): document for document in emitted(capsys)}
    assert found["WebhookIngress"]["OldestAge"] == [40.0]
    assert found["Payments"]["OldestAge"] == [10.0]
    assert found["all"]["OldestAge"] == [40.0]
    assert found["all"]["Depth"] == [2.0]
    assert "queue" not in found["all"]


def test_a_replayed_dead_letter_leaves_the_alarm(drainer: QueueDrainer, capsys: pytest.CaptureFixture[str]) -> None:
    queue = drainer.queue("a", "Payments")
    for _ in range(2):
        enqueue(queue, Draft(b"{}", key="k"))
        (held,) = claim(queue, owner="w", limit=1).claims
        reject(queue, held.entry, held.message, RunFailure("E", "x"))
    measure(drainer)
    assert emitted(capsys)[-1]["DeadLetters"] == [2.0]
    replay(queue, list_dead_letters(queue).items[0], "job")
    flush(queue)
    measure(drainer)
    assert emitted(capsys)[-1]["DeadLetters"] == [1.0]


def test_a_paused_queue_grows_old_without_an_alarm(
    drainer: QueueDrainer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = drainer.queue("a", "Payments")
    enqueue(queue, Draft(b"{}", key="k"))
    pause(queue, by="somebody")
    clock.forward(3_600_000)
    measure(drainer)
    assert [document["OldestAge"] for document in emitted(capsys)] == [[0.0], [0.0]]


def test_without_time_the_document_for_all_is_written_from_the_counters(
    drainer: QueueDrainer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The alarm sweep-missing watches for it."""
    enqueue(drainer.queue("a", "Payments"), Draft(b"{}", key="k"))
    measure(drainer, TimeLeft(lambda: 5_000))
    (found,) = emitted(capsys)
    assert (found["Depth"], found["InFlight"], "queue" in found) == ([1.0], [0.0], False)


def test_a_queue_that_cannot_be_measured_hides_no_other(
    drainer: QueueDrainer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenant in "abc":
        enqueue(drainer.queue(tenant, "Payments"), Draft(b"{}", key="k"))
    read = drainer.runtime.store.read_lane

    def failing(pk: str, *given: Any) -> Any:
        if pk.startswith("Q#b#"):
            raise StoreUnavailable("no answer")
        return read(pk, *given)

    monkeypatch.setattr(drainer.runtime.store, "read_lane", failing)
    measure(drainer)
    found = emitted(capsys)
    assert [document.get("tenant", "all") for document in found] == ["a", "c", "all"]
    assert found[-1]["Depth"] == [3.0]


def test_with_more_queues_than_time_each_is_measured_in_its_turn(
    drainer: QueueDrainer, clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        enqueue(drainer.queue(f"t{number:02d}", "Payments"), Draft(b"{}", key="k"))
    read = drainer.runtime.store.read_lane
    monkeypatch.setattr("millrace.worker.sweeper.SWEEPERS", 1)

    def slow(*given: Any) -> Any:
        clock.forward(400)
        return read(*given)

    monkeypatch.setattr(drainer.runtime.store, "read_lane", slow)
    seen: list[object] = []
    for _ in range(4):
        measure(drainer)
        *each, total = emitted(capsys)
        seen += [document["tenant"] for document in each]
        assert 0 < len(each) < 40
        assert total["Depth"] == [40.0], "the others' by their counters"
    assert set(seen) == {f"t{number:02d}" for number in range(40)}


def test_a_variable_may_name_a_stored_secret_and_its_rotation_is_seen() -> None:
    stored = {"arn:aws:secretsmanager:eu-west-1:1:secret:one": '{"KEY": "old"}'}
    now = [NOON]
    source = SecretSource(
        lambda: now[0],
        environ={"KEY": "secretsmanager:arn:aws:secretsmanager:eu-west-1:1:secret:one#KEY", "PLAIN": "word"},
        fetchers={"secretsmanager": stored.__getitem__},
    )
    assert [secret.raw() for secret in source.resolve(["env:KEY", "env:PLAIN"])] == [b"old", b"word"]
    stored["arn:aws:secretsmanager:eu-west-1:1:secret:one"] = '{"KEY": "new"}'
    now[0] += 60_000
    assert source.refresh(["env:KEY"])
    assert [secret.raw() for secret in source.resolve(["env:KEY"])] == [b"new"]
