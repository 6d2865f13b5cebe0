"""Dead letters as rows that replay them: one reader for the table and its export, each letter once for a run."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest

from millrace.definitions import load
from millrace.engine.claim import body_of, claim
from millrace.engine.dead_letters import get_dead_letter, list_dead_letters, replay_key
from millrace.engine.dead_letters import replay as replay_one
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, nack
from millrace.model.ids import keyed_message_id
from millrace.model.journal import EFFECTS
from millrace.model.message import Body, DeadLetter, DeadLetterFilter, DeadLetterReason, Draft
from millrace.spark.connection import TableConnection
from millrace.spark.dead_letters import (
    Replay,
    dead_letter_rows,
    export_line,
    exported_dead_letter,
    mark_replayed,
    with_body,
)
from millrace.spark.rows import Row, unpack
from tests.conftest import NOON, Bench
from tests.faults.store import down
from tests.spark.task import Task, tally
from tests.spark.test_rows import with_copies
from tests.stores.samples import Samples

NOISE = b"".join(sha256(b"%d" % n).digest() for n in range(1_200))
EVERY = DeadLetterFilter()


def lines_as_rows(definitions: bytes, *lines: str | DeadLetter, **changes: Any) -> list[Row]:
    """What a task makes of lines of an export."""
    plan = Replay(TableConnection("q", "d", "b"), definitions, "Jobs", "acme", "run-1", EVERY, NOON)
    texts = [line if isinstance(line, str) else export_line(line) for line in lines]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["file"] * len(texts)), pa.array([0] * len(texts)), pa.array(texts, pa.string())],
        names=["path", "block", "value"],
    )
    shaped = dead_letter_rows(replace(plan, **changes), [batch])
    return [row for found in shaped for row in unpack(with_copies(found), "run-1")]


@pytest.fixture
def samples() -> Samples:
    return Samples("acme")


@pytest.mark.parametrize(
    "body",
    [
        Body(b'{"n": 1}', size=8),
        Body(b"", size=0),
        Body(NOISE[:300], size=300),
        Body(b"x\x9c\x00\xff", "zlib", size=5_000),
        Body(b"", "zlib", "acme/Jobs/1", 50_000, b"\x00\xff" * 8),
    ],
    ids=["text", "empty", "binary", "packed", "blob"],
)
def test_a_dead_letter_survives_its_line_with_every_field(samples: Samples, body: Body) -> None:
    dead_letter = samples.dead_letter(
        samples.message(body=body), replayed_at=5, replayed_as="m", replay_job="j", error="é\n✓\0"
    )
    line = export_line(dead_letter)
    assert exported_dead_letter(line) == dead_letter
    assert "\n" not in line
    assert list(json.loads(line)) == ["Item"], "as DynamoDB exports it"


def test_a_line_that_aws_wrote_is_read(samples: Samples) -> None:
    """Attributes in any order, binary in base64, blanks, and attributes that we do not know."""
    dead_letter = samples.dead_letter()
    item = json.loads(export_line(dead_letter))["Item"]
    shuffled = dict(sorted(item.items(), reverse=True)) | {"later": {"L": [{"BOOL": True}]}, "none": {"NULL": True}}
    assert exported_dead_letter(json.dumps({"Item": shuffled}, indent=1)) == dead_letter


def test_a_row_replays_its_dead_letter_under_the_runs_own_key(definitions: bytes, samples: Samples) -> None:
    dead_letter = samples.dead_letter()
    (row,) = lines_as_rows(definitions, dead_letter)
    assert row.system_key == replay_key(dead_letter, "run-1")
    assert row.id == keyed_message_id("acme", "Jobs", row.system_key)
    assert exported_dead_letter(row.dead_letter) == dead_letter
    draft = row.draft
    assert (draft.origin, draft.correlation_id, draft.source) == (dead_letter.message.id, "corr-1", "webhook:GitHub")
    assert (draft.key, draft.priority, draft.project, draft.labels) == (
        "customer/7",
        100,
        "billing",
        ("blue", "eu:west"),
    )
    assert draft.headers == {"x-event": "push", EFFECTS: f"{dead_letter.message.id}@{NOON}"}
    assert (draft.idempotency_key, draft.run) == (None, "run-1")


@pytest.mark.parametrize(
    ("only", "matching"),
    [
        (EVERY, [0, 1, 2, 3]),
        (DeadLetterFilter(failed_from=NOON + 10), [1, 2, 3]),
        (DeadLetterFilter(failed_before=NOON + 20), [0, 1]),
        (DeadLetterFilter(failed_from=NOON + 10, failed_before=NOON + 20), [1]),
        (DeadLetterFilter(reason=DeadLetterReason.REJECTED), [2]),
        (DeadLetterFilter(error_text="VALUEERROR: SAID"), [0, 2, 3]),
        (DeadLetterFilter(project="search"), [3]),
        (DeadLetterFilter(correlation_id="corr-2"), [1]),
    ],
)
def test_only_dead_letters_that_match_become_rows(
    definitions: bytes, samples: Samples, only: DeadLetterFilter, matching: list[int]
) -> None:
    dead_letters = [
        samples.dead_letter(),
        samples.dead_letter(failed_at=NOON + 10, error="timed out"),
        samples.dead_letter(failed_at=NOON + 20, reason=DeadLetterReason.REJECTED),
        samples.dead_letter(failed_at=NOON + 30, project="search"),
    ]
    rows = lines_as_rows(definitions, *dead_letters, only=only)
    assert [row.position.offset for row in rows] == matching


def test_dead_letters_of_others_and_forgotten_ones_are_left_out(definitions: bytes, samples: Samples) -> None:
    dead_letters = [
        Samples("other").dead_letter(),
        Samples("acme", "Tight").dead_letter(),
        samples.dead_letter(ttl=NOON // 1000),
        samples.dead_letter(ttl=NOON // 1000 + 1),
    ]
    assert [row.position.offset for row in lines_as_rows(definitions, *dead_letters)] == [3]


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "{}",
        "[]",
        "1",
        '"text"',
        "null",
        '{"Item": {}}',
        '{"Item": []}',
        '{"Item": {"id": "x"}}',
        "[" * 9_999,
    ],
)
def test_a_line_that_is_no_dead_letter_is_rejected_with_its_place(
    definitions: bytes, samples: Samples, line: str
) -> None:
    first, bad, last = lines_as_rows(definitions, samples.dead_letter(), line, "", samples.dead_letter())
    assert (bad.reason, bad.raw) == ("invalid_message: no line of a dead-letter export", line.encode())
    assert [row.position.offset for row in (first, bad, last)] == [0, 1, 3]
    assert (first.reason, last.reason) == ("", "")


@pytest.mark.parametrize(
    "changes",
    [
        {"size": {"N": "x"}},
        {"reason": {"S": "bored"}},
        {"body": {"B": "no base64"}},
        {"body": {"B": None}},
        {"shard": {"S": "0"}},
        {"headers": {"M": {"a": "b"}}},
        {"history": {"S": "["}},
        {"history": {"S": "[[]]"}},
        {"error": 7},
    ],
    ids=str,
)
def test_a_dead_letter_with_a_spoilt_field_is_rejected(
    definitions: bytes, samples: Samples, changes: dict[str, Any]
) -> None:
    item = json.loads(export_line(samples.dead_letter()))["Item"] | changes
    (row,) = lines_as_rows(definitions, json.dumps({"Item": item}))
    assert row.reason == "invalid_message: no line of a dead-letter export"


# -- from one end to the other ---------------------------------------------------------------------------------------


@pytest.fixture
def task(bench: Bench, definitions: bytes) -> Task:
    task = Task(bench)
    task.spec = load(definitions).queue("Jobs").spec
    return task


def bury(task: Task, *bodies: bytes) -> list[DeadLetter]:
    """Messages that died, oldest first."""
    spec = task.spec
    task.spec = replace(spec, delivery=replace(spec.delivery, max_attempts=1))
    for body in bodies:
        enqueue(task.queue, Draft(body, content_type="application/octet-stream", source="webhook:GitHub"))
        for held in claim(task.queue, owner="w").claims:
            nack(task.queue, held.entry, held.message, RunFailure("E", "broken"))
        task.bench.clock.forward(1)
    task.spec = spec
    return list(list_dead_letters(task.queue, newest_first=False).items)


def replay(task: Task, definitions: bytes, dead_letters: list[DeadLetter], run: str = "run-1") -> dict[str, int]:
    given = lines_as_rows(definitions, *dead_letters, tenant=task.bench.tenant, job=run)
    rows = [replace(row, draft=replace(row.draft, run=run)) for row in given]
    writer = task.writer(run, again=True, prepare=with_body, settled=mark_replayed)
    return tally([line for lines in writer.write(rows) for line in lines])


def test_dead_letters_are_replayed_whole_and_once_for_a_run(task: Task, definitions: bytes) -> None:
    dead_letters = bury(task, b"small", b"x" * 5_000, NOISE, b"")
    assert replay(task, definitions, dead_letters) == {"inserted": 4}
    assert replay(task, definitions, dead_letters) == {"inserted": 4}, "another try of the same run"
    claims = claim(task.queue, owner="w", limit=9).claims
    assert sorted(body_of(task.queue, held) for held in claims) == sorted([b"small", b"x" * 5_000, NOISE, b""])
    assert {held.message.origin for held in claims} == {dead_letter.message.id for dead_letter in dead_letters}
    assert replay(task, definitions, dead_letters, "run-2") == {"inserted": 4}, "another run replays again"


def test_a_replayed_dead_letter_says_so_and_the_engine_does_not_replay_it_again(task: Task, definitions: bytes) -> None:
    (dead_letter,) = bury(task, b"small")
    replay(task, definitions, [dead_letter])
    marked = get_dead_letter(task.queue, dead_letter.sk)
    assert marked.replayed_as == keyed_message_id(task.bench.tenant, "Jobs", replay_key(dead_letter, "run-1"))
    assert (marked.replay_job, marked.replayed_at) == ("run-1", task.bench.clock.now)
    assert replay_one(task.queue, marked, "run-1").duplicate


def test_a_mark_that_is_lost_costs_nothing(task: Task, definitions: bytes) -> None:
    dead_letters = bury(task, b"small")
    task.faulty.plan("mark_replayed", always=down)
    assert replay(task, definitions, dead_letters) == {"inserted": 1}


def test_a_dead_letter_replayed_by_the_engine_under_the_same_job_is_not_replayed_again(
    task: Task, definitions: bytes
) -> None:
    (dead_letter,) = bury(task, b"small")
    replay_one(task.queue, dead_letter, "run-1")
    assert replay(task, definitions, [dead_letter]) == {"duplicate": 1}


def test_a_dead_letter_whose_body_is_out_of_reach_fails_alone(task: Task, definitions: bytes) -> None:
    dead_letters = bury(task, b"small", NOISE, NOISE + b" " * 999)
    blobs = task.bench.blobs
    kept = dict(blobs.objects)
    gone = dead_letters[1].message.body.blob
    blobs.objects[dead_letters[2].message.body.blob] = b"other"

    def get(key: str) -> bytes:
        return down(blobs.get, ()) if key == gone else blobs.objects[key]

    blobs.get = get  # type: ignore[method-assign]
    assert replay(task, definitions, dead_letters) == {"inserted": 1, "failed": 2}
    del blobs.get
    blobs.objects.update(kept)
    assert replay(task, definitions, dead_letters) == {"inserted": 3}
