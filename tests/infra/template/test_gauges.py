"""What the sweep measures for the alarms, and secrets that a variable names."""

from __future__ import annotations

import json

import pytest

from millrace.definitions import load
from millrace.engine.enqueue import enqueue
from millrace.engine.operate import pause
from millrace.engine.queue import Runtime
from millrace.model.message import Draft
from millrace.signatures import SecretSource
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.worker.drainer import QueueDrainer
from millrace.worker.metrics import emit_gauges
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


def test_an_empty_deployment_still_says_that_the_sweep_runs(
    drainer: QueueDrainer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Millrace/one")
    emit_gauges(drainer)
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
    emit_gauges(drainer)
    found = {document.get("queue", "all"): document for document in emitted(capsys)}
    assert found["WebhookIngress"]["OldestAge"] == [40.0]
    assert found["Payments"]["OldestAge"] == [10.0]
    assert found["all"]["OldestAge"] == [40.0]
    assert found["all"]["Depth"] == [2.0]
    assert "queue" not in found["all"]


def test_a_paused_queue_grows_old_without_an_alarm(
    drainer: QueueDrainer, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = drainer.queue("a", "Payments")
    enqueue(queue, Draft(b"{}", key="k"))
    pause(queue, by="somebody")
    clock.forward(3_600_000)
    emit_gauges(drainer)
    assert [document["OldestAge"] for document in emitted(capsys)] == [[0.0], [0.0]]


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
