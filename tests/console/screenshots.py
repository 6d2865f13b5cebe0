"""`make screenshots`: the console's views for the docs, into infra/screenshots.

They show two weeks of a queue with a thousand messages and failures, lived through by `fortnight.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from tests.console.browser import browsing
from tests.console.fortnight import live_through
from tests.console.stack import Stack, furnish, serving, work_off
from tests.engines import own_engine

FOLDER = Path("infra/screenshots")
TABLES = TableNames("millrace-console-queue", "millrace-console-dead-letters")


def shoot(page: Any, stack: Stack, message_id: str) -> None:
    def save(name: str) -> None:
        page.wait_for_timeout(400)
        page.screenshot(path=FOLDER / f"{name}.png")

    def go(place: str, text: str) -> None:
        page.evaluate("(place) => { location.hash = place; }", place)
        page.get_by_text(text).first.wait_for()

    page.goto(f"{stack.url}/console")
    save("sign-in")
    page.get_by_label("Token").fill(stack.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="GitHubEvents").wait_for()
    for count in (1, 3, 2, 4, 1):
        page.wait_for_timeout(3_100)
        work_off(stack, "GitHubEvents", count)
        work_off(stack, "OutboundMail", count)
    page.wait_for_timeout(3_200)
    save("queues")
    page.set_viewport_size({"width": 1360, "height": 620})
    go("#/queues/GitHubEvents/dead", "is not in the ledger")
    save("dead-letter-groups")
    page.set_viewport_size({"width": 1360, "height": 960})
    go("#/queues/GitHubEvents/history", "Came and went")
    page.get_by_role("button", name="Two weeks").click()
    page.get_by_text("in steps of 120 minutes").wait_for()
    save("history")
    page.set_viewport_size({"width": 1360, "height": 560})
    go("#/queues/OutboundMail", "is down for")
    save("standing-still")
    page.set_viewport_size({"width": 1360, "height": 760})
    go("#/queues/WebhookIngress/letters", "no answer within 10 s")
    save("dead-letters")
    page.get_by_role("button", name="Replay these…").click()
    page.locator("#dry-count").wait_for()
    save("replay-dry-run")
    page.get_by_label("Per second").fill("2")
    page.locator("dialog button.primary").click()
    page.locator("dialog progress").wait_for()
    page.wait_for_timeout(3_000)
    save("replay-progress")
    page.get_by_role("button", name="Close").last.click()
    go(f"#/queues/WebhookIngress/messages/{message_id}", "What happened")
    page.locator("pre.code").wait_for()
    page.set_viewport_size({"width": 1360, "height": 1180})
    save("message")
    page.set_viewport_size({"width": 1360, "height": 760})
    go("#/queues/GitHubEvents/claims", "worker-1")
    save("claims")
    go("#/queues/WebhookIngress/definition", "What it promises")
    save("definition")
    go("#/queues/WebhookIngress/jobs", "Replay")
    save("jobs")
    go("#/audit", "Asked for")
    page.get_by_role("cell", name="start job").first.wait_for()
    save("audit")
    page.get_by_role("button", name="Switch between").click()
    go("#/", "NightlyReports")
    page.wait_for_timeout(3_200)
    save("queues-dark")
    go(f"#/queues/WebhookIngress/messages/{message_id}", "What happened")
    page.locator("pre.code").wait_for()
    save("message-dark")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with own_engine(TABLES) as url, pytest.MonkeyPatch.context() as patch, browsing() as browser:
        store = DynamoStore(dynamodb_client(endpoint_url=url, region=REGION), TABLES)
        context = browser.new_context(
            viewport={"width": 1360, "height": 760}, color_scheme="light", reduced_motion="reduce"
        )
        with serving(store, "acme", patch) as stack:
            live_through(stack)
            shoot(context.new_page(), stack, furnish(stack))


if __name__ == "__main__":
    main()
