"""Jobs in the console, in a browser: a window is replayed, somebody is erased."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import expect

from millrace.engine.enqueue import enqueue
from millrace.engine.inspect import list_entries
from millrace.engine.status import MessageStatus, status
from millrace.model.message import Draft
from tests.console.stack import Stack, stuck, work_off
from tests.console.test_console import sign_in


def open_window(page: Any, stack: Stack, queue: str) -> Any:
    """The form, filled with a window of a day around now."""
    now = datetime.fromtimestamp(stack.clock() / 1000, UTC)
    sign_in(page, stack.token)
    page.evaluate("(place) => { location.hash = place; }", f"#/queues/{queue}/jobs")
    page.get_by_role("button", name="Replay a window…").click()
    page.get_by_label("Received from (UTC)").fill(f"{now - timedelta(days=1):%Y-%m-%dT%H:%M:%S}")
    page.get_by_label("Received before (UTC)").fill(f"{now + timedelta(days=1):%Y-%m-%dT%H:%M:%S}")
    return page.locator("dialog")


def test_what_was_done_in_a_window_is_counted_and_then_replayed(page: Any, stack: Stack) -> None:
    queue = stack.queue("GitHubEvents")
    ids = {enqueue(queue, Draft(b"{}", project="search")).message_id for _ in range(3)}
    enqueue(queue, Draft(b"{}", project="mobile"))
    work_off(stack, "GitHubEvents", 4)
    stack.clock.by += 1
    dialog = open_window(page, stack, "GitHubEvents")
    page.get_by_label("Project").fill("search")
    dialog.get_by_role("button", name="Count them").click()
    expect(page.locator("#window-count")).to_have_text("3")
    expect(dialog.get_by_text("done 3")).to_be_visible()
    assert {node.get_attribute("title") for node in dialog.locator("td a").all()} == ids
    assert not list_entries(queue).items, "nothing was changed"
    page.get_by_label("Per second").fill("100")
    dialog.get_by_role("button", name="Replay 3").click()
    dialog.get_by_text("3 replayed").wait_for()
    messages = queue.store.get_messages([entry.id for entry in list_entries(queue).items])
    assert {message.origin for message in messages.values()} == ids
    dialog.get_by_role("button", name="Close").last.click()
    card = page.locator(".job").filter(has_text="100 / s")
    expect(card.get_by_text("done 3")).to_be_visible()


def test_an_ordered_queue_asks_whether_any_order_will_do(page: Any, stack: Stack) -> None:
    enqueue(stack.queue("WebhookIngress"), Draft(b"{}"))
    work_off(stack, "WebhookIngress", 1)
    stack.clock.by += 1
    dialog = open_window(page, stack, "WebhookIngress")
    dialog.get_by_role("button", name="Count them").click()
    go = dialog.get_by_role("button", name="Replay 1")
    expect(go).to_be_disabled()
    dialog.get_by_label("WebhookIngress is fifo").check()
    go.click()
    dialog.get_by_text("1 replayed").wait_for()


def test_dead_letters_of_a_window_go_to_another_queue(page: Any, stack: Stack) -> None:
    stack.clock.by = -600_000
    message_id = stuck(stack)
    stack.clock.by = 0
    dialog = open_window(page, stack, "WebhookIngress")
    dialog.get_by_label("Messages", exact=True).select_option("dead")
    dialog.get_by_label("To the queue").select_option("OutboundMail")
    dialog.get_by_role("button", name="Count them").click()
    dialog.get_by_role("button", name="Replay 1").click()
    dialog.get_by_text("1 replayed").wait_for()
    mail = stack.queue("OutboundMail")
    (entry,) = list_entries(mail).items
    assert mail.store.get_messages([entry.id])[entry.id].origin == message_id


def test_somebody_is_erased_once_the_tenants_name_is_typed(page: Any, stack: Stack) -> None:
    queue = stack.queue("OutboundMail")
    hers = enqueue(queue, Draft(b"{}", key="alice")).message_id
    his = enqueue(queue, Draft(b"{}", key="bob")).message_id
    sign_in(page, stack.token)
    page.evaluate("() => { location.hash = '#/jobs'; }")
    page.get_by_role("button", name="Erase…").click()
    dialog = page.locator("dialog")
    dialog.get_by_label("Which").fill("alice")
    dialog.get_by_label("In", exact=True).select_option("OutboundMail")
    dialog.get_by_role("button", name="Count it").click()
    expect(page.locator("#erase-count")).to_have_text("1")
    dialog.get_by_text("What an erasure does not reach").click()
    expect(dialog.get_by_text("Point-in-time recovery")).to_be_visible()
    go = dialog.get_by_role("button", name="Erase 1")
    expect(go).to_be_disabled()
    dialog.get_by_label("to confirm").fill(stack.tenant.upper())
    expect(go).to_be_disabled()
    assert status(queue, hers).status is MessageStatus.READY
    dialog.get_by_label("to confirm").fill(stack.tenant)
    go.click()
    dialog.get_by_text("1 erased").wait_for()
    assert [status(queue, one).status for one in (hers, his)] == [MessageStatus.PURGED, MessageStatus.READY]
    dialog.get_by_role("button", name="Close").last.click()
    cards = page.locator(".job").filter(has_text="every queue")
    expect(cards).to_have_count(2)
    expect(cards.filter(has_text="1 would be erased")).to_have_count(1)


def test_who_may_only_look_is_offered_neither(page: Any, stack: Stack) -> None:
    sign_in(page, stack.reader)
    page.evaluate("() => { location.hash = '#/jobs'; }")
    page.get_by_text("No jobs").wait_for()
    expect(page.get_by_role("button", name="Erase…")).to_be_hidden()
    page.evaluate("() => { location.hash = '#/queues/OutboundMail/jobs'; }")
    page.get_by_text("No jobs").wait_for()
    expect(page.get_by_role("button", name="Replay a window…")).to_be_hidden()
