"""The chaos run's own parts: what it decides by must be right before it decides anything. No process is killed here."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest

from millrace.history.log import HistoryEvent
from millrace.history.records import HistoryRecord
from millrace.model.message import Attempt, DeadLetter
from tests.faults.schedule import QUIET_S, FaultKind, plan
from tests.proofs.chaos.report import Followed, InjectedFault, longest_life, may_inject, recoveries, wrongs_of
from tests.proofs.chaos.run import options
from tests.proofs.chaos.senders import Sent, behaviour
from tests.proofs.chaos.settled_engine import SettledEngine


# -- the plan --
def test_a_plan_is_its_seeds_and_holds_every_kind_several_times() -> None:
    first = plan(7, 180, workers=3, ingresses=2, lease_s=3)

    assert first == plan(7, 180, workers=3, ingresses=2, lease_s=3)
    assert first != plan(8, 180, workers=3, ingresses=2, lease_s=3)
    counts = {kind: sum(fault.kind is kind for fault in first) for kind in FaultKind}
    assert min(counts.values()) >= 2
    assert counts[FaultKind.KILL_ENGINE] >= 3
    assert all(QUIET_S <= fault.at_s <= 180 - QUIET_S for fault in first)
    assert all(fault.hold_s > 3 for fault in first if fault.kind in (FaultKind.STOP_WORKER, FaultKind.STOP_INGRESS))


def test_a_run_is_bounded() -> None:
    for wrong in (["--minutes", "61"], ["--rate", "51"], ["--workers", "11"], ["--minutes", "0"]):
        with pytest.raises(SystemExit):
            options(wrong)


# -- the figures --
def test_recovery_is_from_a_fault_to_the_next_message_done() -> None:
    done = [HistoryRecord(at, HistoryEvent.DONE, "m", 1) for at in (100, 900, 1_500)]
    injected = [
        InjectedFault(50, FaultKind.KILL_WORKER),
        InjectedFault(200, FaultKind.KILL_WORKER),
        InjectedFault(1_000, FaultKind.KILL_ENGINE),
    ]

    assert recoveries(done, injected) == {FaultKind.KILL_WORKER: 700, FaultKind.KILL_ENGINE: 500}


def test_the_longest_life_is_from_the_first_receipt_to_the_end() -> None:
    records = [HistoryRecord(at, HistoryEvent.ACCEPTED, "m") for at in (10, 5)] + [
        HistoryRecord(70, HistoryEvent.DEAD, "m", 1)
    ]

    assert longest_life(records) == 65


def test_nothing_is_injected_again_before_something_was_done(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    log = tmp_path / "worker0.1.log"
    injected = [InjectedFault(500, FaultKind.KILL_ENGINE), InjectedFault(700, FaultKind.KILL_WORKER)]
    answers = []
    for written in ("", '{"action":"history","event":"done","at":600', ',"x":1}\n', '"event":"done","at":800\n'):
        with log.open("a") as file:
            file.write(written)
        followed.look()
        answers.append(
            [may_inject(kind, injected, followed.done_at) for kind in (FaultKind.KILL_WORKER, FaultKind.STOP_INGRESS)]
        )

    assert answers == [[False, False], [False, False], [False, True], [True, True]]


# -- the senders' receipts against the tables --
GOOD, POISON = 0, 39


def sent(**ids: int) -> Sent:
    found = Sent()
    for message_id, n in ids.items():
        found.note("Hook", n, "202", message_id, "")
    return found


def dead_letter(message_id: str, *errors: str) -> DeadLetter:
    history = [Attempt(number, number, "w", 0, 1, error, "") for number, error in enumerate(errors, 1)]
    message = SimpleNamespace(id=message_id)
    said = {"error_type": errors[-1] if errors else "", "error": ""}
    return cast("DeadLetter", SimpleNamespace(message=message, history=history, **said))


def test_what_was_meant_to_end_so_is_no_wrong() -> None:
    assert (behaviour(GOOD), behaviour(POISON)) == ("good", "fails")
    statuses = {"a": "done", "b": "dead", "c": "dead"}
    dead_letters = [dead_letter("b", "ConnectionError"), dead_letter("c", *["WorkerLost"] * 8)]

    assert wrongs_of(sent(a=GOOD, b=POISON, c=1), statuses, dead_letters, {"a": 8}, 8) == []


@pytest.mark.parametrize(
    ("found", "statuses", "dead_letters"),
    [
        (sent(a=GOOD), {}, []),
        (sent(a=GOOD), {"a": "unfinished"}, []),
        (sent(a=GOOD, b=GOOD), {"a": "done", "b": "done"}, []),
        (sent(a=POISON), {"a": "done"}, []),
        (sent(a=GOOD), {"a": "dead"}, [dead_letter("a", "ConnectionError")]),
    ],
)
def test_what_the_receipts_contradict_is_told(
    found: Sent, statuses: dict[str, str], dead_letters: list[DeadLetter]
) -> None:
    assert len(wrongs_of(found, statuses, dead_letters, {}, 8)) == 1


def test_a_refusal_of_a_signed_post_and_a_run_too_many_are_told() -> None:
    found = sent(a=GOOD)
    found.note("Hook", 1, "401", "", "signature_invalid")

    assert wrongs_of(found, {"a": "done"}, [], {"a": 9}, 8)[0] == "a ran 9 times, of 8 allowed"
    assert wrongs_of(found, {"a": "done"}, [], {}, 8) == ["1 posts were answered 401: signature_invalid"]


# -- the proxy --
class _Engine(BaseHTTPRequestHandler):
    """An engine that answers everything, but dies (closes without an answer) at the calls named in `dies_at`."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []
    dies_at: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        target = self.headers["X-Amz-Target"].partition(".")[2]
        self.asked.append(target)
        if target in self.dies_at:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named by the standard library)
        pass


@pytest.fixture
def engine() -> Iterator[SettledEngine]:
    _Engine.asked, _Engine.dies_at = [], set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Engine)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        with SettledEngine(server.server_address[1], "table", ("pk", "sk")) as proxy:
            yield proxy
    finally:
        server.shutdown()
        server.server_close()


def ask(proxy: SettledEngine, operation: str) -> int:
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", "/", json.dumps({}), {"X-Amz-Target": f"DynamoDB_20120810.{operation}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_transactions_answer_is_passed_on_only_after_a_read_that_follows_it(engine: SettledEngine) -> None:
    assert (ask(engine, "TransactWriteItems"), ask(engine, "PutItem")) == (200, 200)
    assert _Engine.asked == ["TransactWriteItems", "GetItem", "PutItem"]


@pytest.mark.parametrize("dies_at", ["TransactWriteItems", "GetItem"])
def test_nobody_hears_of_a_transaction_whose_commit_is_not_known(engine: SettledEngine, dies_at: str) -> None:
    _Engine.dies_at = {dies_at}

    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        ask(engine, "TransactWriteItems")
