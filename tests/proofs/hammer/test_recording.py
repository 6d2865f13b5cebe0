"""Histories from end to end: what the verbs record, in every wrapping of a log, through the command to its verdict."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from millrace.aws.settings import Settings
from millrace.cli.main import main
from millrace.engine.claim import Claim, claim
from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack, reject, release, snooze
from millrace.engine.operate import purge_page
from millrace.engine.queue import Queue
from millrace.history.checker import HistoryRecord
from millrace.history.log import HistoryLog
from millrace.history.reader import LogRecords
from millrace.model.errors import StaleClaim
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering, QueueSpec, RetryPolicy
from millrace.worker.worker import Worker, WorkerSettings
from tests.conftest import Bench

BODY, KEY, IDEMPOTENCY, RESULT = b'{"say":"marked-body"}', "marked-key", "marked-idempotency", b"marked-result"
AT_ONCE = WorkerSettings(patience_ms=0, heartbeat=False)


class Recorded:
    """A queue whose history is kept in memory."""

    def __init__(self, bench: Bench, **spec: Any) -> None:
        self.lines: list[str] = []
        self.bench = bench
        runtime = bench.another_process()
        runtime.history = HistoryLog(self.lines.append)
        self.queue: Queue = runtime.queue(bench.tenant, QueueSpec("Recorded", **spec))

    def take(self, owner: str = "w1") -> Claim:
        (held,) = claim(self.queue, owner=owner).claims
        return held

    def events(self) -> Counter[str]:
        return Counter(record.event.value for record in self.records())

    def records(self) -> list[HistoryRecord]:
        log = LogRecords()
        found = list(log.read("memory", self.lines))
        assert (log.told, log.other, log.torn) == (len(self.lines), 0, [])
        return found


@pytest.fixture
def recorded(bench: Bench) -> Recorded:
    return Recorded(bench, delivery=RetryPolicy(max_attempts=2, initial_backoff_ms=1, max_backoff_ms=1))


def check(*files: object, **options: Any) -> Result:
    flags = [f"--{name.replace('_', '-')}" for name, on in options.items() if on]
    return CliRunner().invoke(main, ["check-history", *flags, *map(str, files)])


def test_a_life_is_told_step_by_step_and_a_batch_in_one_line(recorded: Recorded) -> None:
    enqueue_all(recorded.queue, [Draft(BODY, idempotency_key=f"{IDEMPOTENCY}-{n}") for n in range(3)])
    held = claim(recorded.queue, owner="w1", limit=3).claims
    ack(recorded.queue, [one.entry for one in held], [RESULT] * 3)

    assert len(recorded.lines) == 3
    assert recorded.events() == {"accepted": 3, "ending": 3, "done": 3}
    assert {record.version for record in recorded.records()[3:]} == {1}
    assert {record.owner for record in recorded.records()[3:]} == {"w1"}


def test_every_other_ending_is_told(recorded: Recorded) -> None:
    queue = recorded.queue
    enqueue_all(queue, [Draft(b"%d" % n) for n in range(5)])
    failed, rejected, released, snoozed, lost = claim(queue, owner="w1", limit=5).claims
    nack(queue, failed.entry, failed.message, RunFailure("Flaky", "marked-error"))
    reject(queue, rejected.entry, rejected.message, RunFailure("Bad", "marked-error"))
    release(queue, [released.entry])
    snooze(queue, snoozed.entry, queue.now() + 60_000)
    recorded.bench.clock.forward(queue.spec.lease_ms + 1)
    retaken = {held.entry.id: held for held in claim(queue, owner="w2", limit=5).claims}
    assert isinstance(ack(queue, [lost.entry])[0], StaleClaim)
    exhausted = retaken[failed.entry.id]
    assert nack(queue, exhausted.entry, exhausted.message, RunFailure("Flaky", "marked-error")) is None
    release(queue, [retaken[lost.entry.id].entry, retaken[released.entry.id].entry])
    purged = purge_page(queue, "me").removed

    assert purged == 2
    assert recorded.events() == {
        "accepted": 5, "failed": 1, "dead": 2, "released": 4, "stale": 1, "ending": 3, "purged": 2
    }  # fmt: skip


def test_a_refused_retry_and_a_refused_burial_are_stale(recorded: Recorded) -> None:
    enqueue(recorded.queue, Draft(b"1"))
    first = recorded.take()
    recorded.bench.clock.forward(recorded.queue.spec.lease_ms + 1)
    recorded.take("w2")
    for verb in (nack, reject):
        with pytest.raises(StaleClaim):
            verb(recorded.queue, first.entry, first.message, RunFailure("Late", "too late"))

    assert recorded.events()["stale"] == 2


def test_a_worker_tells_its_starts(recorded: Recorded) -> None:
    enqueue(recorded.queue, Draft(b"1"))
    Worker(recorded.queue, lambda context: context.version, settings=AT_ONCE).run()

    assert [record.event.value for record in recorded.records()] == ["accepted", "started", "ending", "done"]


def test_a_repeat_of_a_queued_message_is_accepted_and_one_of_an_ended_message_is_not(recorded: Recorded) -> None:
    draft = Draft(BODY, idempotency_key=IDEMPOTENCY)
    receipts: list[Receipt] = [enqueue(recorded.queue, draft), enqueue(recorded.queue, draft)]
    ack(recorded.queue, [recorded.take().entry])
    receipts.append(enqueue(recorded.queue, draft))

    accepted = [record for record in recorded.records() if record.event.value == "accepted"]
    assert [receipt.duplicate for receipt in receipts] == [False, True, True]
    assert [(record.message, record.nonce) for record in accepted] == [(receipts[0].message_id, accepted[0].nonce)] * 2


def test_an_ordered_queue_tells_line_number_and_sending_time_but_no_key(bench: Bench) -> None:
    recorded = Recorded(bench, ordering=Ordering.PER_KEY)
    for key in (KEY, "other", KEY):
        enqueue(recorded.queue, Draft(BODY, key=key))

    first, other, third = recorded.records()
    assert (first.key == third.key, first.key == other.key) == (True, False)
    assert (first.sequence, other.sequence, third.sequence) == (1, 2, 3)
    assert first.sent == bench.clock()


def test_nothing_that_a_sender_wrote_and_no_token_is_in_the_history(bench: Bench) -> None:
    recorded = Recorded(bench, ordering=Ordering.PER_KEY)
    draft = Draft(BODY, key=KEY, idempotency_key=IDEMPOTENCY, headers={"x": "marked-header"}, correlation_id="marked")
    enqueue(recorded.queue, draft)
    held = recorded.take()
    ack(recorded.queue, [held.entry], [RESULT])

    told = "".join(recorded.lines)
    assert "marked" not in told
    assert held.entry.token not in told
    assert held.entry.nonce not in told


def test_histories_are_off_unless_asked_for() -> None:
    needed = dict.fromkeys(("QUEUE_TABLE", "DEAD_LETTER_TABLE", "BODY_BUCKET", "DEFINITIONS"), "x")

    assert not Settings.from_environment(needed).log_history
    assert Settings.from_environment({**needed, "LOG_HISTORY": "1"}).log_history


# -- the command ----------------------------------------------------------------------------------------------------
LIFE = [
    {"action": "history", "event": event, "at": at, "tenant": "t", "queue": "Q", "owner": "w", "messages": messages}
    for event, at, messages in (
        ("accepted", 10, [["m1", 0, "n", "R#1#", 1, 9], ["m2", 0, "n", "R#1#", 2, 9]]),
        ("started", 20, [["m1", 1, "n"]]),
        ("ending", 30, [["m1", 1, "n"]]),
        ("done", 31, [["m1", 1, "n"]]),
    )
]
LINES = [json.dumps(line, separators=(",", ":")) for line in LIFE]
OTHER = '{"level":"INFO","message":"A call was answered.","action":"webhook_accepted"}'


def wrapped(form: str) -> str:
    """The same four lines as CloudWatch gives them."""
    moment = "2026-11-16T04:31:25.123000+00:00 2026/11/16/[$LATEST]0a1b"
    events = [{"logStreamName": "s", "timestamp": 1, "message": line + "\n", "eventId": "1"} for line in LINES]
    match form:
        case "as written":
            return "\n".join([OTHER, *LINES, "START RequestId: 1", ""])
        case "tailed":
            return "".join(f"{moment} {line}\n" for line in [OTHER, *LINES, "END RequestId: 1 {"])
        case "tailed as json":
            return f"{moment} {OTHER}\n" + "".join(f"{moment} {json.dumps(line, indent=4)}\n" for line in LIFE)
        case "exported":
            return "".join(f"2026-11-16T04:31:25.123Z {line}\n" for line in [OTHER, *LINES])
        case "filtered":
            return json.dumps({"events": events, "searchedLogStreams": []}, indent=4) + "\n"
        case "subscribed":
            return json.dumps({"messageType": "DATA_MESSAGE", "logEvents": events}) + "\n"
        case "queried":
            rows = [[{"field": "@message", "value": line}, {"field": "@ptr", "value": "x"}] for line in LINES]
            return json.dumps({"results": rows}, indent=4) + "\n"
        case _:  # inside a line of Powertools
            return "".join(json.dumps({"level": "INFO", "message": line}) + "\n" for line in LINES)


FORMS = ("as written", "tailed", "tailed as json", "exported", "filtered", "subscribed", "queried", "logged")


@pytest.mark.parametrize("form", FORMS)
def test_a_history_is_found_in_every_wrapping(tmp_path: Path, form: str) -> None:
    (tmp_path / "log").write_text(wrapped(form))
    (tmp_path / "log.gz").write_bytes(gzip.compress(wrapped(form).encode()))
    for name in ("log", "log.gz"):
        result = check(tmp_path / name, json=True)
        found = json.loads(result.stdout)
        assert (result.exit_code, found["accepted"], found["done"]) == (0, 2, 1), result.output
        assert found["unfinished"] == ["m2"]
        assert found["lines"]["unreadable"] == []


def test_lines_are_counted_by_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("as written"))

    assert check(tmp_path / "log").stdout.splitlines()[0] == "6 lines: 4 of the history, 2 others, 0 unreadable."


def test_what_has_not_ended_is_lost_only_in_a_complete_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("as written"))

    assert check(tmp_path / "log").exit_code == 0
    result = check(tmp_path / "log", complete=True)
    assert result.exit_code == 1
    assert "lost  m2: it is unfinished" in result.stdout


def test_a_broken_promise_is_told_whichever_file_shows_it(tmp_path: Path) -> None:
    again = {**LIFE[1], "at": 5_000, "owner": "other", "messages": [["m1", 2, "n"]]}
    (tmp_path / "ingress.log").write_text(LINES[0] + "\n")
    (tmp_path / "worker.log").write_text("\n".join([*LINES[1:], json.dumps(again), ""]))

    result = check(tmp_path / "ingress.log", tmp_path / "worker.log", json=True)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["faults"] == {"started after its end": 1}
    assert check(tmp_path / "ingress.log").exit_code == 0


def test_a_line_that_an_export_holds_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("exported") * 2)

    found = json.loads(check(tmp_path / "log", json=True).stdout)
    assert (found["accepted"], found["started"], found["findings"]) == (2, 1, [])


def test_one_queue_of_several_is_checked_alone(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("as written"))
    checked = CliRunner().invoke(main, ["check-history", "--queue", "Q", "--tenant", "t", str(tmp_path / "log")])

    assert checked.exit_code == 0
    assert CliRunner().invoke(main, ["check-history", "--queue", "P", str(tmp_path / "log")]).exit_code == 2


@pytest.mark.parametrize(
    "text", ["", OTHER + "\n", LINES[0][:40] + "\n" + LINES[1] + "\n", LINES[0].replace("accepted", "flew") + "\n"]
)
def test_a_log_that_cannot_be_read_is_no_clean_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text)

    assert check(tmp_path / "log").exit_code == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = check(tmp_path / "missing")
    assert (result.exit_code, "missing cannot be read" in result.stderr) == (2, True)


def test_half_a_line_of_a_killed_writer_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "at the end").write_text("\n".join([*LINES, LINES[3][:50]]))
    (tmp_path / "in between").write_text("\n".join([LINES[0], LINES[1][:50] + LINES[1], *LINES[2:], ""]))

    for name in ("at the end", "in between"):
        assert check(tmp_path / name).exit_code == 0


def test_standard_input_is_read() -> None:
    command = [sys.executable, "-m", "millrace.cli", "check-history", "--json", "-"]
    given = gzip.compress(wrapped("tailed").encode())
    ran = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)

    assert (ran.returncode, json.loads(ran.stdout)["done"]) == (0, 1)
