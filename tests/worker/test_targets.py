"""Targets: what each kind is given, and what its answers mean."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

import pytest
from botocore.exceptions import ClientError

from millrace.definitions import TargetKind
from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.model.message import Entry
from millrace.signatures import SecretSource, WebhookRequest, preset, verify
from millrace.worker import Commands, Context, Reject, Retry
from millrace.worker.breaker import FAILURES
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.targets.chain import QueueDelivery
from millrace.worker.targets.http import HttpDelivery, HttpSettings, retry_after_s
from millrace.worker.targets.lambda_function import LambdaDelivery
from millrace.worker.targets.request import Deliver
from millrace.worker.time_left import TimeLeft
from tests.conftest import NOON, Bench
from tests.worker.conftest import AT_ONCE, put
from tests.worker.definitions import TYPE, compiled

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Rig:
    """A station on a test's store, with commands of its own and whatever else is handed in."""

    def __init__(self, bench: Bench, queues: str, **deliveries: Deliver) -> None:
        self.bench = bench
        self.definitions = compiled(queues)
        self.commands = Commands()
        kinds: dict[TargetKind, Deliver] = {
            TargetKind.COMMAND: self.commands.deliver,
            TargetKind.QUEUE: QueueDelivery(self.definitions.queue),
        }
        kinds |= {TargetKind(name): delivery for name, delivery in deliveries.items()}
        self.drainer = QueueDrainer(bench.runtime, self.definitions, kinds, AT_ONCE)

    def queue(self, name: str = "Jobs") -> Queue:
        return self.drainer.queue(self.bench.tenant, name)

    def drain(self, name: str = "Jobs") -> Any:
        return self.drainer.drain(WakeRequest(self.bench.tenant, name), TimeLeft())

    def entry(self, message_id: str, name: str = "Jobs") -> Entry:
        found = status(self.queue(name), message_id).entry
        assert found is not None
        return found


def put_n(queue: Queue, n: int = 1, **fields: Any) -> str:
    return put(queue, json.dumps({"n": n}).encode(), **fields).message_id


# -- command ----------------------------------------------------------------------------------------------------
COMMAND = f"queue Jobs {{ {TYPE}  map_to: command Thing.Make {{ number: n  twice: n + n }} }}"


def test_a_command_gets_what_the_mapping_makes(bench: Bench) -> None:
    rig = Rig(bench, COMMAND)
    seen: list[Any] = []

    @rig.commands.command("Thing.Make")
    def make(given: dict[str, int], context: Context) -> dict[str, int]:
        seen.append((given, context.attempt, context.input))
        return {"made": given["twice"]}

    message_id = put_n(rig.queue(), 4)
    rig.drain()
    assert seen == [({"number": 4, "twice": 8}, 1, {"number": 4, "twice": 8})]
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert result.snapshot == b'{"made":8}'


def test_a_command_may_do_without_the_context(bench: Bench) -> None:
    rig = Rig(bench, COMMAND)
    seen: list[Any] = []
    rig.commands.command("Thing.Make")(seen.append)
    put_n(rig.queue(), 4)
    rig.drain()
    assert seen == [{"number": 4, "twice": 8}]


def test_a_command_that_nobody_registered_is_retried(bench: Bench) -> None:
    """A deploy that forgot a module is mended by the next one: nothing is dead before its attempts are used up."""
    rig = Rig(bench, COMMAND)
    message_id = put_n(rig.queue())
    rig.drain()
    assert status(rig.queue(), message_id).history[0].error == "There is no command 'Thing.Make'."


def test_one_name_is_registered_once() -> None:
    commands = Commands()
    commands.command("A.B")(print)
    with pytest.raises(ValueError, match="twice"):
        commands.command("A.B")(repr)


def test_a_message_that_is_not_its_type_is_rejected(bench: Bench) -> None:
    rig = Rig(bench, COMMAND)
    put(rig.queue(), b"not json")
    rig.drain()
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.error.startswith("The message does not fit its type")


def test_a_mapping_without_a_value_is_rejected(bench: Bench) -> None:
    rig = Rig(bench, f"queue Jobs {{ {TYPE}  map_to: command Thing.Make {{ who: name }} }}")
    put_n(rig.queue())
    rig.drain()
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.reason == "rejected"


# -- queue ------------------------------------------------------------------------------------------------------
CHAIN = f"""
queue Jobs {{ {TYPE}  map_to: queue Next {{ n: n + 1 }} }}
queue Next {{ {TYPE}  key: string(n)  drained_by: api }}
"""


def test_a_chained_message_keeps_its_correlation_and_origin(bench: Bench) -> None:
    rig = Rig(bench, CHAIN)
    message_id = put_n(rig.queue(), 1, correlation_id="corr-7")
    rig.drain()
    (held,) = claim(rig.queue("Next"), owner="test").claims
    assert (held.message.correlation_id, held.message.origin, held.entry.key) == ("corr-7", message_id, "2")
    assert json.loads(held.message.body.data) == {"n": 2}


def test_chaining_is_exactly_once_whatever_is_repeated(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker dies after the chained message was accepted and before its ack: the next run meets it."""
    rig = Rig(bench, CHAIN)
    message_id = put_n(rig.queue())
    real = bench.store.end_entries
    monkeypatch.setattr(bench.store, "end_entries", lambda entries: _silent())
    rig.drain()
    monkeypatch.setattr(bench.store, "end_entries", real)
    bench.clock.forward(31_000)
    rig.drain()
    assert status(rig.queue(), message_id).status is MessageStatus.DONE
    assert len(claim(rig.queue("Next"), owner="test", limit=10).claims) == 1


def _silent() -> Any:
    from millrace.model.errors import StoreUnavailable

    raise StoreUnavailable("no answer")


def test_a_full_queue_holds_the_chain_up_uncharged(bench: Bench) -> None:
    rig = Rig(bench, CHAIN.replace("drained_by: api", "drained_by: api  retention { max_depth: 1 }"))
    first, second = put_n(rig.queue(), 1), put_n(rig.queue(), 2)
    rig.drain()
    statuses = {status(rig.queue(), message_id).status for message_id in (first, second)}
    assert statuses == {MessageStatus.DONE, MessageStatus.SCHEDULED}
    (waiting,) = [m for m in (first, second) if status(rig.queue(), m).status is MessageStatus.SCHEDULED]
    assert rig.entry(waiting).attempts == 0


# -- several ----------------------------------------------------------------------------------------------------
SEVERAL = f"""
queue Jobs {{ {TYPE}
  delivery {{ max_attempts: 4  initial_backoff_ms: 1000  backoff: none }}
  map_to: command One.Do {{ n: n }}
  map_to: command Two.Do {{ n: n }}
  map_to: command Three.Do {{ n: n }}
}}
"""


class Several(Rig):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench, SEVERAL)
        self.calls: dict[str, int] = {}
        self.failing: dict[str, list[Exception]] = {}
        for name in ("One.Do", "Two.Do", "Three.Do"):
            self.commands.command(name)(self._called(name))

    def _called(self, name: str) -> Any:
        def call(given: dict[str, int]) -> str:
            self.calls[name] = self.calls.get(name, 0) + 1
            if self.failing.get(name):
                raise self.failing[name].pop(0)
            return name

        return call


def test_each_target_is_retried_on_its_own(bench: Bench) -> None:
    rig = Several(bench)
    rig.failing = {"Two.Do": [ValueError("1"), ValueError("2")], "Three.Do": [ValueError("1")]}
    message_id = put_n(rig.queue())
    for _ in range(3):
        rig.drain()
        bench.clock.forward(4_000)
    assert rig.calls == {"One.Do": 1, "Two.Do": 3, "Three.Do": 2}
    assert status(rig.queue(), message_id).status is MessageStatus.DONE


def test_when_all_succeed_nothing_is_written_besides_the_ack(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Several(bench)
    message_id = put_n(rig.queue())
    monkeypatch.setattr(bench.store, "put_workflow_state", None)
    rig.drain()
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert set(json.loads(result.snapshot)) == {"command:One.Do", "command:Two.Do", "command:Three.Do"}


def test_a_rejecting_target_does_not_keep_the_others_from_their_work(bench: Bench) -> None:
    rig = Several(bench)
    rig.failing = {"One.Do": [Reject("never")], "Two.Do": [Retry(after=1)]}
    put_n(rig.queue())
    rig.drain()
    bench.clock.forward(1_000)
    rig.drain()
    assert rig.calls == {"One.Do": 1, "Two.Do": 2, "Three.Do": 1}
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert "never" in dead_letter.error


def test_a_handlers_own_document_and_the_targets_progress_do_not_mix(bench: Bench) -> None:
    rig = Several(bench)
    rig.commands = Commands()
    rig.drainer.deliveries = {TargetKind.COMMAND: rig.commands.deliver}
    seen: list[dict[str, Any]] = []

    def one(_given: Any, context: Context) -> None:
        context.state.write({"step": context.attempt})

    def two(_given: Any, context: Context) -> None:
        seen.append(context.state.read())
        if context.attempt == 1:
            raise ValueError

    rig.commands.command("One.Do")(one)
    rig.commands.command("Two.Do")(two)
    rig.commands.command("Three.Do")(lambda _given: None)
    put_n(rig.queue())
    rig.drain()
    bench.clock.forward(1_000)
    rig.drain()
    assert seen == [{"step": 1}, {"step": 1}]


# -- lambda -----------------------------------------------------------------------------------------------------
class Functions:
    """Lambda's client, as far as a delivery uses it."""

    def __init__(self, payload: bytes = b"{}", error: str = "", refuse: str = "") -> None:
        self.answer: dict[str, Any] = {"Payload": BytesIO(payload), **({"FunctionError": error} if error else {})}
        self.refuse = refuse
        self.calls: list[dict[str, Any]] = []

    def invoke(self, **given: Any) -> dict[str, Any]:
        self.calls.append(given)
        if self.refuse:
            raise ClientError({"Error": {"Code": self.refuse}}, "Invoke")
        return self.answer


def lambda_rig(bench: Bench, functions: Functions) -> Rig:
    queues = f'queue Jobs {{ {TYPE}  map_to: lambda "resize" {{ n: n }} }}'
    return Rig(bench, queues, **{"lambda": LambdaDelivery(functions)})  # type: ignore[arg-type]


def test_a_function_is_invoked_with_the_input_and_the_fencing_token(bench: Bench) -> None:
    from base64 import b64decode

    functions = Functions(b'{"ok":true}')
    rig = lambda_rig(bench, functions)
    message_id = put_n(rig.queue(), 3, correlation_id="corr-1")
    rig.drain()
    (call,) = functions.calls
    assert (call["FunctionName"], json.loads(call["Payload"])) == ("resize", {"n": 3})
    custom = json.loads(b64decode(call["ClientContext"]))["custom"]
    assert custom == {
        "message_id": message_id,
        "queue": "Jobs",
        "claim_version": 1,
        "attempt": 1,
        "correlation_id": "corr-1",
    }
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert result.snapshot == b'{"ok":true}'


def test_an_error_of_the_function_is_a_failed_run(bench: Bench) -> None:
    functions = Functions(b'{"errorType":"KeyError","errorMessage":"x"}', error="Unhandled")
    rig = lambda_rig(bench, functions)
    message_id = put_n(rig.queue())
    rig.drain()
    assert rig.entry(message_id).attempts == 1
    assert status(rig.queue(), message_id).history[0].error == "KeyError: x"


def test_a_throttled_function_charges_nothing(bench: Bench) -> None:
    rig = lambda_rig(bench, Functions(refuse="TooManyRequestsException"))
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due > bench.clock()) == (0, True)


def test_a_missing_function_is_a_failed_run(bench: Bench) -> None:
    rig = lambda_rig(bench, Functions(refuse="ResourceNotFoundException"))
    message_id = put_n(rig.queue())
    rig.drain()
    assert rig.entry(message_id).attempts == 1


# -- http -------------------------------------------------------------------------------------------------------
class Receiver:
    """An endpoint on this machine that answers as it is told."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                receiver.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, content = receiver.answers.pop(0) if receiver.answers else (200, {}, b"")
                self.send_response(status)
                for name, value in {"content-length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def http_rig(bench: Bench, receiver: Receiver, **settings: Any) -> Rig:
    given = HttpSettings(**{"signing": ("env:OUT",), "allow_loopback": True, **settings})
    delivery = HttpDelivery(given, SecretSource(bench.clock, environ={"OUT": SECRET}))
    queues = f"""queue Jobs {{ {TYPE}
      delivery {{ max_attempts: 3  initial_backoff_ms: 1000  backoff: none }}
      map_to: http "{receiver.url}" {{ number: n }} }}"""
    return Rig(bench, queues, http=delivery)


def test_a_post_is_signed_and_carries_the_fencing_token(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(200, {"content-type": "application/json"}, b'{"id":"x"}')]
    message_id = put_n(rig.queue(), 5, correlation_id="corr-9")
    rig.drain()
    ((path, headers, body),) = receiver.requests
    assert (path, json.loads(body)) == ("/hook", {"number": 5})
    request = WebhookRequest.build("POST", receiver.url, headers, body)
    secrets = SecretSource(bench.clock, environ={"OUT": SECRET}).resolve(["env:OUT"])
    proof = verify(preset("standard_webhooks"), request, secrets, bench.clock())
    assert proof.delivery_id == message_id
    assert (headers["millrace-claim-version"], headers["millrace-attempt"]) == ("1", "1")
    assert headers["x-correlation-id"] == "corr-9"
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert result.snapshot == b'{"id":"x"}'


def test_connections_are_reused(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    for n in range(5):
        put_n(rig.queue(), n)
        rig.drain()
    assert (len(receiver.requests), receiver.connections) == (5, 1)


@pytest.mark.parametrize("code", [301, 307, 400, 401, 404, 422, 500, 502, 503])
def test_whatever_is_not_success_is_a_failed_run(bench: Bench, receiver: Receiver, code: int) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(code, {"location": receiver.url + "/elsewhere"}, b"no")]
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due) == (1, bench.clock() + 1_000)
    assert len(receiver.requests) == 1


def test_429_waits_as_told_and_charges_nothing(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(429, {"retry-after": "17"}, b"")]
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due) == (0, bench.clock() + 17_000)


def test_503_waits_as_told_and_is_charged(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(503, {"retry-after": "30"}, b"")]
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due) == (1, bench.clock() + 30_000)


def test_410_is_rejected(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(410, {}, b"")]
    put_n(rig.queue())
    rig.drain()
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.reason == "rejected"


def test_redirects_are_followed_only_where_allowed(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, follow_redirects=True)
    receiver.answers = [(307, {"location": "/elsewhere"}, b"")]
    message_id = put_n(rig.queue())
    rig.drain()
    assert [path for path, _, _ in receiver.requests] == ["/hook", "/elsewhere"]
    assert status(rig.queue(), message_id).status is MessageStatus.DONE


def test_redirects_end(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, follow_redirects=True)
    receiver.answers = [(307, {"location": "/again"}, b"")] * 50
    message_id = put_n(rig.queue())
    rig.drain()
    assert rig.entry(message_id).attempts == 1
    assert len(receiver.requests) == 4


def test_loopback_is_refused_unless_allowed(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, allow_loopback=False)
    put_n(rig.queue())
    rig.drain()
    assert not receiver.requests
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.reason == "rejected"


def test_an_endpoint_that_is_down_trips_its_breaker(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.close()
    for n in range(30):
        put_n(rig.queue(), n)
    rig.drain()
    assert list(rig.queue().state(fresh=True).breakers) == [f"http:{receiver.url}"]
    charged = [rig.queue().store.read_lane(pk, "R#", "~", 100) for pk in rig.queue().partitions()]
    assert sum(entry.attempts for page in charged for entry in page.items) <= FAILURES + AT_ONCE.concurrency


def test_without_a_secret_nothing_is_sent(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, signing=())
    put_n(rig.queue())
    rig.drain()
    assert not receiver.requests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12.0),
        (" 0 ", 0.0),
        ("", None),
        (None, None),
        ("soon", None),
        ("-5", None),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("9" * 400, None),
    ],
)
def test_retry_after_in_both_forms(text: str | None, seconds: float | None) -> None:
    assert retry_after_s(text, NOON) == seconds
