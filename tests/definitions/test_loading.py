"""Compiled definitions as the functions see them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.definitions import Definitions, TargetKind, load
from millrace.model.errors import InvalidDefinitions, MillraceError, NotFound, UnknownQueue
from millrace.model.queue_spec import Idempotency, Jitter, Ordering, QueueSpec, Retention, RetryPolicy
from tests.definitions.writing import MESSAGE, QUIET, fuzz, loaded, queue_text

COMPILED = Path("infra/definitions.json")
HEAVY = ("lark", "cel", "celpy", "click", "rich", "boto3", "botocore", "pydantic", "millrace.definitions.language")


def modules_after(code: str) -> set[str]:
    """Names of the modules that a fresh process has imported after some code."""
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": "shared"}
    )
    return set(finished.stdout.split())


LOAD = f"from millrace.definitions import load; defs = load({str(COMPILED)!r})"
EVERYTHING = f"""{LOAD}
for name in defs.queues: defs.queue(name)
for name in defs.webhooks: defs.webhook(name)
message = {{"payload": {{"event": {{"data": {{"id": "P1", "title": "x", "urgency": "high"}}}}}}}}
assert defs.queue("WebhookIngress").targets[0].render(message)["severity"] == "critical"
"""


def test_loading_and_rendering_imports_neither_parser_nor_engine() -> None:
    imported = modules_after(EVERYTHING)
    assert not [name for name in HEAVY if name in imported]
    assert "millrace.definitions.cel_engine" not in imported


def test_an_expression_that_needs_the_engine_loads_the_extension_alone() -> None:
    message = {"received_at": "2026-11-15T00:00:00Z"}
    imported = modules_after(
        f"{LOAD}\nassert defs.queue('Payments').targets[0].input['weekend'].evaluate({message}) is True"
    )
    assert "cel.cel" in imported
    assert not [name for name in ("cel", "typer", "lark", "rich") if name in imported]


def test_a_queue_has_the_limits_that_its_definition_states() -> None:
    text = f"""app Test {{
  queue Jobs {{
    {MESSAGE} fed_by: api
    ordering: per_key(payload.order)  shards: 7  priority: critical  project: "shop"  labels: ["a", "b"]
    retention {{ max_age_seconds: 60  max_depth: 5 }}
    delivery {{ max_attempts: 9  initial_backoff_ms: 10  max_backoff_ms: 20  backoff: none  dead_letter_queue: Dead }}
    idempotency {{ key: headers["id"]  window_seconds: 30  cache_result: false }}
    lease_seconds: 1.5  execution_timeout_seconds: 20  max_concurrency: 3  rate_limit {{ per_second: 0.5 }}
    concurrency_per_key: 2  max_body_bytes: 1000  dictionary: false  filter: payload.go == true
    map_to: command Shop.Ship {{ id: payload.id }}
    map_to: http "https://example.com/hook" {{}}
    map_to: lambda "ship-it"
    map_to: queue Copies {{ id: payload.id }}
  }}
  queue Dead {{ {MESSAGE} retention {{ max_age_seconds: 99 }} }}
  queue Copies {{ message_type {{ id: string }} drained_by: api }}
}}"""
    queue = loaded(text).queue("Jobs")
    assert queue.spec == QueueSpec(
        name="Jobs",
        ordering=Ordering.PER_KEY,
        shards=7,
        priority=200,
        project="shop",
        labels=("a", "b"),
        retention=Retention(60, 5, 99),
        delivery=RetryPolicy(9, 10, 20, Jitter.NONE),
        idempotency=Idempotency(30, cache_result=False),
        lease_seconds=1.5,
        execution_timeout_seconds=20.0,
        max_concurrency=3,
        concurrency_per_key=2,
        rate_per_second=0.5,
        max_body_bytes=1000,
        dictionary=False,
    )
    assert [target.kind for target in queue.targets] == list(TargetKind)
    assert queue.dead_letter_queue == "Dead"
    message = {"payload": {"order": 5, "go": True, "id": "x"}, "headers": {"id": "k"}}
    assert (queue.key_of(message), queue.idempotency_key_of(message), queue.accepts(message)) == ("5", "k", True)
    assert [target.render(message) for target in queue.targets] == [{"id": "x"}, {}, message, {"id": "x"}]


def test_a_queue_that_states_nothing_has_the_defaults_of_its_spec() -> None:
    assert loaded(queue_text("")).queue("Jobs").spec == QueueSpec("Jobs")


def test_an_unordered_queue_with_a_key_is_fair() -> None:
    queue = loaded(queue_text("key: payload.customer")).queue("Jobs")
    assert queue.spec.fair
    assert queue.spec.ordering is Ordering.UNORDERED
    assert queue.key_of({"payload": {"customer": "c"}}) == "c"


def test_what_cannot_be_judged_is_kept() -> None:
    body = 'filter: payload.kind == "x"  ordering: per_key(payload.id)  idempotency { key: payload.id }'
    queue = loaded(queue_text(body)).queue("Jobs")
    assert not queue.accepts({"payload": {"kind": "y"}})
    for payload in ({}, None, "text", {"id": None}, {"id": ["x"]}, {"id": ""}):
        message: dict[str, Any] = {"payload": payload}
        assert queue.accepts(message)
        assert queue.key_of(message) is None
        assert queue.idempotency_key_of(message) is None


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    definitions = load(COMPILED)
    with pytest.raises(UnknownQueue, match="Did you mean 'WebhookIngress'") as caught:
        definitions.queue("webhookingres")
    assert caught.value.nearest == "WebhookIngress"
    with pytest.raises(NotFound, match="webhook 'Pagerduty'"):
        definitions.webhook("Pagerduty")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format": 2, "queues": {}, "webhooks": {}, "schedules": {}, "tenants": {}}',
        b'{"format": 1}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_compiled_file_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidDefinitions, match="millrace compile"):
        load(data)


def _damage(value: Any, path: list[Any], replacement: Any) -> None:
    """Replaces what lies at a path of positions, each taken modulo what there is."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[path[0] % len(keys)]
    if len(path) > 1 and isinstance(value[key], dict | list) and value[key]:
        _damage(value[key], path[1:], replacement)
    else:
        value[key] = replacement


@fuzz(200)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=7),
    st.sampled_from([None, 0, -1, "x", [], {}, [1], {"a": 1}, True, {"path": []}, {"eq": [1]}]),
)
def test_damaged_compiled_definitions_never_raise_anything_else(path: list[int], replacement: Any) -> None:
    compiled = json.loads(COMPILED.read_bytes())
    _damage(compiled, path, replacement)
    try:
        definitions: Definitions = load(json.dumps(compiled).encode())
        for name in definitions.queues:
            definitions.queue(name)
        for name in definitions.webhooks:
            definitions.webhook(name)
    except MillraceError:
        pass


def test_a_queue_without_a_type_takes_anything_and_has_nothing_to_read_from() -> None:
    definitions = loaded(f"app Test {{ queue Jobs {{ {QUIET} }} webhook W {{ queue: Jobs  verify: none }} }}")
    queue = definitions.queue("Jobs")
    assert (queue.message_type, queue.key, queue.filter, queue.targets) == (None, None, None, ())
    assert definitions.webhook("W").message_type is None
