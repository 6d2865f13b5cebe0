"""Why a webhook cannot verify is kept for operators, cheaply, and taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.clock import MINUTE
from millrace.model.errors import StoreUnavailable
from millrace.model.webhook_problems import FORGOTTEN_MS, WebhookProblem
from millrace.signatures import SecretSource
from tests.conftest import Bench
from tests.webhooks.gate import ENVIRONMENT, SECRET, Gate, open_gate, signed, v2

HOOK, BODY = "GitHub", b'{"action": "opened", "number": 1}'


class Process(Gate):
    """An ingress whose secrets are in the test's hand."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.environment: dict[str, str] = {}
        opened = open_gate(bench.another_process(), bench.tenant)
        super().__init__(replace(opened, secrets=SecretSource(bench.clock, environ=self.environment)), monkeypatch)

    def set_secret(self) -> None:
        self.environment |= ENVIRONMENT


@pytest.fixture
def bench(memory_bench: Bench) -> Bench:
    return memory_bench


def kept(bench: Bench) -> list[WebhookProblem]:
    return bench.store.read_webhook_problems()


def test_a_missing_secret_is_kept_once_a_minute_and_never_its_value(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, began = Process(bench, monkeypatch), bench.clock()
    writes: list[WebhookProblem] = []
    put = bench.store.put_webhook_problem

    def count_and_put(problem: WebhookProblem) -> None:
        writes.append(problem)
        put(problem)

    monkeypatch.setattr(bench.store, "put_webhook_problem", count_and_put)
    for _ in range(3):
        assert process.send(HOOK, BODY).status == 500
    assert kept(bench) == [WebhookProblem(HOOK, "env:HOOK_SECRET: the variable is not set", began, began)]
    bench.clock.forward(MINUTE)
    process.send(HOOK, BODY)
    assert kept(bench)[0] == replace(writes[0], last=began + MINUTE)
    assert len(writes) == 2
    assert SECRET not in repr(writes)


def test_another_process_goes_on_with_the_same_beginning(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    began = bench.clock()
    Process(bench, monkeypatch).send(HOOK, BODY)
    bench.clock.forward(FORGOTTEN_MS - 1)
    Process(bench, monkeypatch).send(HOOK, BODY)
    assert kept(bench)[0].since == began
    bench.clock.forward(FORGOTTEN_MS)
    Process(bench, monkeypatch).send(HOOK, BODY)
    assert kept(bench)[0].since == bench.clock()


@pytest.mark.parametrize("secret", [SECRET, "another"])
def test_the_first_call_for_which_the_secret_is_there_takes_it_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    process = Process(bench, monkeypatch)
    process.send(HOOK, BODY)
    process.set_secret()
    assert process.send(HOOK, BODY, secret=secret).status == (202 if secret == SECRET else 401)
    assert kept(bench) == []
    process.environment.clear()
    process.send(HOOK, BODY)
    assert len(kept(bench)) == 1


def test_a_call_that_shows_nothing_about_the_secret_takes_nothing_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(bench, monkeypatch)
    process.send(HOOK, BODY)
    process.set_secret()
    event = v2(signed(HOOK, BODY, process.now()))
    event["requestContext"]["http"]["method"] = "GET"
    assert process.call(event).status == 405
    assert len(kept(bench)) == 1


def test_a_webhook_that_verifies_writes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(bench, monkeypatch)
    process.set_secret()
    monkeypatch.delattr(type(bench.store), "delete_webhook_problem")
    assert process.send(HOOK, BODY).status == 202


def test_a_table_that_does_not_answer_changes_no_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def silent(_problem: WebhookProblem) -> None:
        raise StoreUnavailable("no answer")

    process = Process(bench, monkeypatch)
    monkeypatch.setattr(bench.store, "put_webhook_problem", silent)
    assert process.send(HOOK, BODY).json["code"] == "configuration_missing"
    assert "was not noted" in caplog.text
