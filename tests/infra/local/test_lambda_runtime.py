"""Functions under AWS's own bootstrap: answers, failures, time-outs, calls of one another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from infra.local import lambda_runtime
from infra.local.dynamodb import CREDENTIALS, REGION
from infra.local.lambda_runtime import InvocationFailed, InvokeApi, LambdaFunction

Make = Callable[..., LambdaFunction]


@pytest.fixture
def function(tmp_path: Path) -> Iterator[Make]:
    made: list[LambdaFunction] = []
    with (tmp_path / "log").open("wb") as log:

        def make(handler: str, timeout_s: int = 60) -> LambdaFunction:
            found = LambdaFunction(handler, f"tests.infra.local.handlers.{handler}", CREDENTIALS, timeout_s, log)
            made.append(found)
            return found

        yield make
        for found in made:
            found.stop()


def test_a_sandbox_is_used_again_and_knows_its_time(function: Make) -> None:
    answers = function("answers")
    first, second = answers({"n": 1}), answers({"n": 2})
    assert (first["event"], second["event"]) == ({"n": 1}, {"n": 2})
    assert first["pid"] == second["pid"]
    assert first["in_time"]
    assert first["name"] == "answers"


def test_a_failure_says_what_was_raised(function: Make) -> None:
    with pytest.raises(InvocationFailed, match="the gate is stuck"):
        function("fails")({})


def test_a_function_that_takes_too_long_is_ended(function: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lambda_runtime, "START_S", 5)
    hangs = function("hangs", timeout_s=1)
    with pytest.raises(InvocationFailed, match="longer than 1 s"):
        hangs({})
    assert not hangs._all[0].alive


def test_a_function_calls_another_without_waiting(function: Make, tmp_path: Path) -> None:
    api = InvokeApi()
    api.functions["notes"] = function("notes")
    api.functions["answers"] = function("answers")
    try:
        client = boto3.client("lambda", endpoint_url=api.url, region_name=REGION)
        sent = f'{{"path": "{tmp_path / "note"}"}}'.encode()
        assert client.invoke(FunctionName="notes", InvocationType="Event", Payload=sent)["StatusCode"] == 202
        waited = client.invoke(FunctionName="answers", Payload=b'{"n": 3}')
        assert b'"n": 3' in waited["Payload"].read()
        end = time.monotonic() + 60
        note = tmp_path / "note"
        while not (note.exists() and note.read_text() == "called"):
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        api.stop()
