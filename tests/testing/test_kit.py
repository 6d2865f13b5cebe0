"""The kit runs an app as the product would, and says in words what is not as a test expects it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.app.compile import NotCompiled
from millrace.model.errors import InvalidMessage, NotFound
from millrace.testing import AppUnderTest, Effects, EffectsDiffer
from millrace.worker import commands
from tests.app.apps import make

SHOP = """app Shop {
  queue Orders {
    message_type { number: int }
    fed_by: api
    delivery { max_attempts: 3  initial_backoff_ms: 1000  backoff: none }
    map_to: command Order.Ship { number: number }
    map_to: queue Labels { text: string(number) }
  }
  queue Vault {
    message_type { number: int }
    fed_by: api
    encrypt: "alias/shop-{tenant}"
    map_to: command Order.Ship { number: number }
  }
  queue Labels { message_type { text: string }  map_to: command Label.Print { text: text } }
  queue Audits { message_type { line: string }  fed_by: api  map_to: command Audit.Write { line: line } }
  queue Visits {
    message_type { payload: json  headers: map<string, string>  source_ip: string  received_at: time }
    map_to: command Order.Ship { number: payload.number }
  }
  webhook Door { queue: Visits  provider: stripe  secret_env: "DOOR_KEY" }
  webhook Linear { queue: Visits  provider: linear  secret_env: "LINEAR_KEY" }
  webhook Panda { queue: Visits  provider: pandadoc  secret_env: "PANDA_KEY" }
}
"""
HANDLERS = """from millrace import Reject, command

printed = []

@command("Order.Ship")
def ship(given):
    if given["number"] < 0:
        raise ValueError(f"no order {given['number']}")
    return {"shipped": given["number"]}

@command("Audit.Write", batch=10, wait_ms=200)
def write(batch):
    for item in batch:
        item.result = len(batch)
        if item.input["line"] == "bad":
            item.fail(Reject("bad line"))

@command("Label.Print")
def print_label(given, context):
    printed.append(given["text"])
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppUnderTest]:
    monkeypatch.setattr(commands, "BUNDLE", registry := commands.Commands())
    monkeypatch.setattr("millrace.command", registry.command, raising=False)
    monkeypatch.setattr(commands, "command", registry.command)
    monkeypatch.syspath_prepend(tmp_path)
    app = make(tmp_path, {"queues/orders.millrace": SHOP, "commands/orders.py": HANDLERS})
    yield AppUnderTest(app.root)
    for name in [name for name in sys.modules if name.partition(".")[0] == "commands"]:
        del sys.modules[name]


def test_a_message_runs_with_all_that_it_makes(shop: AppUnderTest) -> None:
    message_id = shop.enqueue("Orders", {"number": 7})
    assert (shop.depth("Orders"), shop.message(message_id).status.value) == (1, "ready")
    shop.drain()
    assert shop.depth("Orders") == shop.depth("Labels") == 0
    assert sys.modules["commands.orders"].printed == ["7"]


def test_a_signed_webhook_is_accepted_and_a_repeat_is_the_same_message(shop: AppUnderTest) -> None:
    answer = shop.send_webhook("Door", {"id": "evt_1", "number": 3})
    assert answer.status == 202
    assert shop.send_webhook("Door", {"id": "evt_1", "number": 3}).message_id == answer.message_id
    shop.drain()
    assert shop.result(answer.message_id) == {"shipped": 3}


@pytest.mark.parametrize("webhook", ["Linear", "Panda"])
def test_a_time_in_the_body_and_a_proof_in_the_query_are_sent_along(shop: AppUnderTest, webhook: str) -> None:
    answer = shop.send_webhook(webhook, {"number": 4})
    assert answer.status in (200, 202)
    shop.drain()
    assert shop.result(answer.message_id) == {"shipped": 4}


def test_a_failing_message_waits_for_the_clock_and_ends_as_a_dead_letter(shop: AppUnderTest) -> None:
    message_id = shop.enqueue("Orders", {"number": -1})
    shop.drain()
    told = "is scheduled; expected: done. Attempt 1: no order -1. Its history: accepted, started, failed"
    with pytest.raises(AssertionError, match=told):
        shop.result(message_id)
    shop.advance(5)
    shop.drain()
    assert shop.message(message_id).entry is not None
    shop.drain_to_the_end()
    (letter,) = shop.dead_letters("Orders")
    assert (letter.message_id, letter.reason, letter.error, letter.attempts) == (
        message_id,
        "exhausted",
        "no order -1",
        3,
    )


def test_a_message_of_the_wrong_type_is_refused(shop: AppUnderTest) -> None:
    with pytest.raises(InvalidMessage):
        shop.enqueue("Orders", {"number": "seven"})


def test_a_command_can_be_replaced_for_one_test(shop: AppUnderTest) -> None:
    shop.replace_command("Order.Ship", lambda given: {"by": "hand"})
    message_id = shop.enqueue("Orders", {"number": 1})
    shop.drain()
    assert shop.result(message_id) is not None
    with pytest.raises(NotFound):
        shop.replace_command("Order.Fly", lambda given: None)


def test_an_encrypted_queue_runs_and_waits_while_its_key_is_disabled(shop: AppUnderTest) -> None:
    first = shop.enqueue("Vault", {"number": 7})
    shop.drain()
    assert shop.result(first) == {"shipped": 7}
    second = shop.enqueue("Vault", {"number": 8})
    shop.advance(300)
    shop.keys.disable("alias/shop-default")
    shop.drain()
    shop.assert_status(second, "scheduled")
    shop.keys.enable("alias/shop-default")
    shop.drain_to_the_end()
    assert shop.result(second) == {"shipped": 8}
    third = shop.enqueue("Vault", {"number": 9})
    shop.advance(300)
    shop.keys.delete("alias/shop-default")
    shop.drain()
    shop.assert_status(third, "dead")


def test_an_unknown_message_and_a_missing_command_are_said(shop: AppUnderTest) -> None:
    with pytest.raises(AssertionError, match="No queue knows"):
        shop.message("nope")
    (shop.app.root / "queues" / "more.millrace").write_text(
        SHOP.replace("Order.Ship", "Order.Fly")
        .replace("queue Orders", "queue Other")
        .replace("queue Labels {", "queue Labels2 {")
        .replace("queue Audits", "queue Audits2")
        .replace("queue Vault", "queue Vault2")
        .replace("queue Visits", "queue Visits2")
        .replace("webhook ", "webhook More")
        .replace("queue: Visits ", "queue: Visits2 ")
    )
    with pytest.raises(NotCompiled, match=r"No module registers Order\.Fly"):
        AppUnderTest(shop.app.root)


def test_what_happened_to_a_message_is_told_in_order(shop: AppUnderTest) -> None:
    message_id = shop.enqueue("Orders", {"number": 7})
    shop.drain()
    assert shop.history(message_id) == ["accepted", "started", "done"]
    assert shop.assert_status(message_id, "done").result is not None
    with pytest.raises(AssertionError, match="is done; expected: dead"):
        shop.assert_status(message_id, "dead")


def test_a_message_is_explored_through_all_queues_of_the_app(
    shop: AppUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = Effects()
    handlers = sys.modules["commands.orders"]

    class Printer:
        append = staticmethod(effects.record("print"))

    monkeypatch.setattr(handlers, "printed", Printer)
    with pytest.raises(EffectsDiffer, match=r"print\('7'\) happened 2 times"):
        shop.explore("Orders", {"number": 7}, effects=effects)
    shop.replace_command(
        "Label.Print",
        lambda given, context: safe(given["text"], key=context.idempotency_key("print")),
    )
    safe = effects.record("print", idempotent_by="key")
    explored = shop.explore("Orders", {"number": 7}, effects=effects)
    assert explored.effects == {"print('7')": 1}
    assert shop.depth("Orders") == 0


def test_a_command_that_takes_batches_is_given_what_is_there(shop: AppUnderTest) -> None:
    sent = [shop.enqueue("Audits", {"line": line}) for line in ("a", "bad", "c")]
    shop.drain()
    for message_id, status in zip(sent, ("done", "dead", "done"), strict=True):
        shop.assert_status(message_id, status)
