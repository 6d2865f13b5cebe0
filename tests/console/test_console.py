"""The console in a browser: what an operator does on a bad day."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.engine.operate import pause
from millrace.model.errors import StaleClaim
from millrace.model.message import Draft
from millrace.model.queue_samples import QueueSample
from millrace.model.queue_state import BreakerState
from millrace.model.tokens import revoke
from tests.console.stack import MARKUP, Stack, bury_many, stuck

#: Nothing is ever sent there; without the policy the browser would try.
ELSEWHERE = "data:text/plain,taken"


def sign_in(page: Any, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Queues").wait_for()


def test_from_a_stuck_message_to_its_success(page: Any, stack: Stack, tmp_path: Path) -> None:
    stack.clock.by = -600_000
    message_id = stuck(stack)
    stack.clock.by = 0
    sign_in(page, stack.token)
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="WebhookIngress"))
    row.get_by_role("link", name="1", exact=True).click()
    page.get_by_text("no answer within … s").wait_for()
    page.get_by_role("link", name="One by one", exact=True).click()
    page.get_by_text("no answer within 10 s").wait_for()
    page.locator(f'a[title="{message_id}"]').click()
    page.get_by_role("heading", name=message_id).wait_for()
    timeline = page.locator(".timeline")
    timeline.get_by_text("Dead letter").wait_for()
    timeline.get_by_text("TimeoutError").nth(2).wait_for()
    page.go_back()
    page.get_by_role("button", name="Replay these…").click()
    page.locator("#dry-count").wait_for()
    assert page.locator("#dry-count").text_content() == "1"
    page.get_by_role("button", name="Replay 1").click()
    page.locator("dialog .badge", has_text="done").wait_for()
    page.get_by_role("button", name="Close").last.click()
    page.get_by_text("No dead letters").wait_for()
    page.get_by_label("Replayed").select_option("yes")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="yes").click()
    page.get_by_role("heading", name=message_id).wait_for(state="detached")
    page.locator(".head .badge", has_text="ready").wait_for()
    queue = stack.queue("WebhookIngress")
    (held,) = claim(queue, owner="worker-9", limit=1).claims
    page.locator(".head .badge", has_text="in_flight").wait_for()
    ack(queue, [held.entry], [b'{"ok":true}'])
    page.locator(".head .badge", has_text="done").wait_for()
    assert held.message.origin == message_id
    page.screenshot(path=tmp_path / "done.png")
    assert (tmp_path / "done.png").stat().st_size > 5_000


def test_a_payload_full_of_markup_shows_as_text(page: Any, stack: Stack) -> None:
    queue = stack.queue("GitHubEvents")
    body = b'{ "big": 12345678901234567890, "html": ' + json.dumps(MARKUP).encode() + b" }"
    receipt = enqueue(queue, Draft(body, correlation_id="corr-markup", source=MARKUP[:64], headers={"x-evil": MARKUP}))
    sign_in(page, stack.token)
    page.keyboard.press("/")
    page.keyboard.type(receipt.message_id)
    page.keyboard.press("Enter")
    code = page.locator("pre.code")
    code.get_by_text("12345678901234567890").wait_for()
    assert json.dumps(MARKUP) in code.text_content()
    page.get_by_role("button", name="Raw").click()
    assert page.locator("pre.code").text_content() == body.decode()
    assert page.title().endswith("Millrace")
    assert page.locator("main img, main script, main b", has_text="bold").count() == 0
    page.fill("#q", "corr-markup")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=receipt.message_id).wait_for()


def test_nothing_runs_but_the_consoles_own_files(page: Any, stack: Stack) -> None:
    answer = page.request.get(f"{stack.url}/console")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for directive in ("require-trusted-types-for 'script'", "trusted-types 'none'", "connect-src 'self'"):
        assert directive in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for name in Path("functions/admin/console").iterdir():
        text = name.read_text()
        assert "innerHTML" not in text
        assert "style=" not in text
        assert "https://" not in text
    other = page.context.new_page()
    other.goto(f"{stack.url}/console")
    try_markup = "() => { try { document.body.innerHTML = '<i>x</i>'; return 'set'; } catch (e) { return e.name; } }"
    refused = other.evaluate(try_markup)
    assert refused == "TypeError"
    for attempt in ("trustedTypes.createPolicy('p', {})", f"await fetch('{ELSEWHERE}')"):
        assert other.evaluate(f"async () => {{ try {{ {attempt}; }} catch (e) {{ return e.name; }} }}") == "TypeError"


def test_a_reload_keeps_the_operator_signed_in_until_the_sign_out(page: Any, stack: Stack) -> None:
    """In this tab alone: neither another tab nor the next session of the browser finds the token."""
    sign_in(page, stack.token)
    page.evaluate("() => { location.hash = '#/queues/OutboundMail'; }")
    page.get_by_role("heading", name="OutboundMail").wait_for()
    kept = page.evaluate("() => JSON.stringify({...localStorage}) + document.cookie + location.href")
    assert stack.token not in kept
    page.reload()
    page.get_by_role("heading", name="OutboundMail").wait_for()
    other = page.context.new_page()
    other.goto(f"{stack.url}/console")
    other.get_by_label("Token").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    assert page.evaluate("() => JSON.stringify({...sessionStorage})") == "{}"
    page.reload()
    page.get_by_label("Token").wait_for()


def test_a_token_that_is_no_longer_taken_is_forgotten(page: Any, stack: Stack) -> None:
    sign_in(page, stack.token)
    page.get_by_role("link", name="OutboundMail").wait_for()
    olga = next(
        token for token in stack.tokens.list_tokens() if (token.name, token.tenants) == ("olga", (stack.tenant,))
    )
    revoke(stack.tokens, olga.id, stack.clock())
    page.get_by_role("alert").get_by_text("no longer taken").wait_for()
    assert page.evaluate("() => JSON.stringify({...sessionStorage})") == "{}"


@pytest.mark.parametrize(("unused_ms", "kept"), [(8 * 3_600_000 - 60_000, True), (8 * 3_600_000, False)])
def test_a_token_is_forgotten_after_eight_hours_without_use(
    page: Any, stack: Stack, unused_ms: int, kept: bool
) -> None:
    sign_in(page, stack.token)
    page.goto("about:blank")  # nothing of the console runs while the tab lies unused
    page.add_init_script(
        f"""const kept = JSON.parse(sessionStorage.getItem("millrace.session") ?? "{{}}");
        kept.at -= {unused_ms};
        if (kept.token) sessionStorage.setItem("millrace.session", JSON.stringify(kept));"""
    )
    page.goto(f"{stack.url}/console")
    if kept:
        page.get_by_role("heading", name="Queues").wait_for()
    else:
        page.get_by_label("Token").wait_for()
        assert page.evaluate("() => JSON.stringify({...sessionStorage})") == "{}"


def test_every_address_of_a_queue_leads_somewhere(page: Any, stack: Stack) -> None:
    sign_in(page, stack.token)
    for place, heading in (("#/queues", "Queues"), ("#/queues/OutboundMail", "OutboundMail"), ("#/queues/", "Queues")):
        page.evaluate("(place) => { location.hash = place; }", place)
        page.get_by_role("heading", name=heading, exact=True).wait_for()


def test_equal_failures_are_one_row_and_are_replayed_as_one(page: Any, stack: Stack) -> None:
    bury_many(stack, "GitHubEvents", 32)
    stack.clock.by = -600_000
    stuck(stack, "GitHubEvents", number=1)
    stack.clock.by = 0
    sign_in(page, stack.token)
    page.get_by_role("link", name="GitHubEvents").click()
    row = page.get_by_role("row").filter(has_text="ValueError")
    row.get_by_role("link", name="32").wait_for()
    expect(page.locator("tbody tr")).to_have_count(2)
    row.get_by_role("button", name="Replay").click()
    page.get_by_role("button", name="Replay 32").click()
    page.locator("dialog .badge", has_text="done").wait_for()
    page.get_by_role("button", name="Close").last.click()
    row.wait_for(state="detached")
    page.get_by_role("row").filter(has_text="HttpStatus").get_by_role("link", name="1").first.click()
    page.get_by_text("one error only").wait_for()
    page.get_by_text("502 Bad Gateway").wait_for()


def test_a_queue_that_others_name_shows_their_dead_letters(page: Any, stack: Stack) -> None:
    stack.clock.by = -600_000
    stuck(stack)
    stack.clock.by = 0
    sign_in(page, stack.token)
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="WebhookDLQ"))
    row.get_by_role("link", name="1", exact=True).click()
    page.get_by_text("no answer within … s").wait_for()
    expect(page.get_by_role("tab", name="Dead letters 1")).to_have_count(1)
    expect(page.locator(".tile", has_text="Dead letters").locator("dd")).to_have_text("1")
    page.locator("main").get_by_role("link", name="WebhookIngress", exact=True).click()
    page.get_by_role("heading", name="WebhookIngress").wait_for()


def test_a_queue_that_stands_still_says_why_and_can_be_tried_now(page: Any, stack: Stack) -> None:
    queue = stack.queue("OutboundMail")
    down = BreakerState(queue.now() + 600_000, 3, queue.now() - 60_000)
    queue.store.set_breaker(queue.state(fresh=True), "http:https://mail.example", down)
    pause(queue, "olga")
    sign_in(page, stack.token)
    page.get_by_role("link", name="OutboundMail").click()
    page.get_by_text("Standing still because olga paused it").wait_for()
    page.get_by_text("Standing still because http:https://mail.example is down for 1 min").wait_for()
    page.get_by_role("button", name="Try now").click()
    page.get_by_text("mail.example is down").wait_for(state="detached")
    page.get_by_role("button", name="Hand out again").click()
    page.get_by_text("Standing still").first.wait_for(state="detached")
    state = queue.state(fresh=True)
    assert (state.paused_at, dict(state.breakers)) == (0, {})


def test_history_is_drawn_from_samples_and_read_by_keyboard(page: Any, stack: Stack) -> None:
    now = stack.clock()
    for hours in range(48):
        sample = QueueSample(now - hours * 3_600_000, 7, 60_000, 1_000 - 10 * hours, 500 - 5 * hours, 0, 0)
        stack.service.runtime.store.put_sample(stack.tenant, "NightlyReports", sample)
    sign_in(page, stack.token)
    page.evaluate("() => { location.hash = '#/queues/NightlyReports/history'; }")
    depth = page.get_by_role("img", name="Depth: at most 7")
    depth.wait_for()
    assert depth.locator("path.line").get_attribute("d").count("L") > 20
    said = page.locator(".said").first
    before = said.text_content()
    depth.focus()
    page.keyboard.press("ArrowLeft")
    assert said.text_content() != before
    page.get_by_role("button", name="Two weeks").click()
    page.get_by_text("in steps of 120 minutes").wait_for()
    page.get_by_text("As a table").click()
    page.get_by_role("cell", name="20", exact=True).first.wait_for()


def test_a_message_that_waits_is_cancelled(page: Any, stack: Stack) -> None:
    receipt = enqueue(stack.queue("NightlyReports"), Draft(b"{}"))
    sign_in(page, stack.token)
    page.evaluate("(id) => { location.hash = `#/queues/NightlyReports/messages/${id}`; }", receipt.message_id)
    page.get_by_role("button", name="Cancel message").click()
    page.locator(".head .badge", has_text="purged").wait_for()


def test_a_message_that_runs_is_cancelled_and_its_worker_is_told(page: Any, stack: Stack) -> None:
    queue = stack.queue("NightlyReports")
    receipt = enqueue(queue, Draft(b"{}"))
    (held,) = claim(queue, owner="worker-1", limit=1).claims
    sign_in(page, stack.token)
    page.evaluate("(id) => { location.hash = `#/queues/NightlyReports/messages/${id}`; }", receipt.message_id)
    page.get_by_role("button", name="Cancel running message").click()
    page.locator(".head .badge", has_text="purged").wait_for()
    assert isinstance(ack(queue, [held.entry])[0], StaleClaim)


def test_schedules_are_listed_with_their_rule(page: Any, stack: Stack) -> None:
    stack.service.default_tenant = stack.tenant
    sign_in(page, stack.token)
    page.get_by_role("link", name="Schedules").click()
    page.get_by_role("cell", name="0 3 * * *").wait_for()
    page.get_by_text("not seen by a sweep yet").wait_for()


def test_done_messages_are_listed_and_found_by_their_key(page: Any, stack: Stack) -> None:
    queue = stack.queue("NightlyReports")
    receipt = enqueue(queue, Draft(b"{}", idempotency_key="report-2027-01", correlation_id="corr-report"))
    ack(queue, [held.entry for held in claim(queue, owner="worker-1", limit=1).claims])
    sign_in(page, stack.token)
    page.evaluate("() => { location.hash = '#/queues/NightlyReports/done'; }")
    page.locator(f'a[title="{receipt.message_id}"]').wait_for()
    page.fill("#q", "report-2027-01")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=receipt.message_id).wait_for()
    page.locator("main .badge", has_text="done").wait_for()


def test_a_wrong_token_is_told_in_words(page: Any, stack: Stack) -> None:
    page.get_by_label("Token").fill("mrt_nothing")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").get_by_text("does not open the console").wait_for()


def test_an_error_is_shown_with_a_way_on_that_does_not_sign_out(page: Any, stack: Stack) -> None:
    sign_in(page, stack.token)
    page.evaluate("() => { location.hash = '#/queues/Nothing/dead'; }")
    page.get_by_text("There is no such queue").wait_for()
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("There is no such queue").wait_for()
    page.route("**/admin/queues", lambda route: route.abort())
    page.get_by_role("link", name="Queues").first.click()
    page.get_by_text("The server could not be reached").wait_for()
    page.unroute("**/admin/queues")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("link", name="OutboundMail").wait_for()


def test_who_may_only_look_is_offered_no_purge(page: Any, stack: Stack) -> None:
    sign_in(page, stack.reader)
    page.get_by_role("link", name="OutboundMail").click()
    page.get_by_text("No dead letters").wait_for()
    assert not page.get_by_role("button", name="Purge…").is_visible()
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("it needs scope operate").wait_for()


def test_pause_and_resume(page: Any, stack: Stack) -> None:
    sign_in(page, stack.token)
    page.get_by_role("link", name="OutboundMail").click()
    page.get_by_role("button", name="Pause").click()
    page.locator(".head .badge", has_text="paused").wait_for()
    assert stack.queue("OutboundMail").state(fresh=True).paused_by == "olga"
    page.get_by_role("button", name="Resume").click()
    page.locator(".head .badge", has_text="paused").wait_for(state="detached")
    page.get_by_role("link", name="Audit").click()
    page.get_by_role("cell", name="pause queue", exact=True).wait_for()


def test_nothing_can_be_paused_before_its_state_is_known(page: Any, stack: Stack) -> None:
    sign_in(page, stack.token)
    held: list[Any] = []
    page.route("**/admin/queues/OutboundMail", lambda route: held.append(route))
    page.get_by_role("link", name="OutboundMail").click()
    pause = page.get_by_role("button", name="Pause")
    pause.wait_for()
    assert pause.is_disabled()
    for route in held:
        route.continue_()
    page.unroute("**/admin/queues/OutboundMail")
    pause.click()
    page.get_by_role("button", name="Resume").wait_for()


def test_a_purge_waits_for_the_typed_name(page: Any, stack: Stack) -> None:
    enqueue(stack.queue("OutboundMail"), Draft(b"{}"))
    sign_in(page, stack.token)
    page.get_by_role("link", name="OutboundMail").click()
    page.get_by_role("button", name="Purge…").click()
    go = page.get_by_role("button", name="Purge the queue")
    assert go.is_disabled()
    page.get_by_label("to confirm").fill("outboundmail")
    assert go.is_disabled()
    page.get_by_label("to confirm").fill("OutboundMail")
    go.click()
    page.locator(".job .badge", has_text="done").wait_for()
    assert (
        stack.queue("OutboundMail").store.read_lane(stack.queue("OutboundMail").partitions()[0], "R#", "R#~", 5).items
        == ()
    )


def test_thousands_of_dead_letters_are_one_row_and_come_in_pages(page: Any, stack: Stack) -> None:
    bury_many(stack, "GitHubEvents", 2_500)
    sign_in(page, stack.token)
    page.get_by_role("link", name="GitHubEvents").click()
    page.get_by_role("link", name=re.compile("Show ValueError × [0-9,]+ one by one")).click(timeout=60_000)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    first = rows.first.text_content()
    page.get_by_role("button", name="Older →").click()
    page.get_by_text("Page 2").wait_for()
    expect(rows).to_have_count(50)
    expect(rows.first).not_to_have_text(first)
    page.get_by_role("button", name="← Newer").click()
    page.get_by_text("Page 1").wait_for()
    page.get_by_role("button", name="Replay these…").click()
    page.locator("#dry-count").wait_for(timeout=60_000)
    counted = page.locator("#dry-count").text_content()
    assert counted == "2,500" or counted.endswith("+"), "all of them, or as many as could be counted in time"


def test_by_keyboard_alone(page: Any, stack: Stack) -> None:
    sign_in(page, stack.token)
    page.get_by_role("link", name="OutboundMail").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="OutboundMail").wait_for()
    assert page.evaluate("() => document.activeElement.tagName") == "H1"
    page.get_by_role("tab", name="Dead letters").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_text("Nothing is ready").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "tab-ready"


def test_every_control_has_a_name_and_every_page_one_heading(page: Any, stack: Stack) -> None:
    stack.clock.by = -600_000
    message_id = stuck(stack)
    stack.clock.by = 0
    sign_in(page, stack.token)
    places = ["#/", "#/jobs", "#/audit", f"#/queues/WebhookIngress/messages/{message_id}"]
    tabs = ("dead", "letters", "ready", "scheduled", "claims", "done", "history", "jobs", "definition")
    places += [f"#/queues/WebhookIngress/{tab}" for tab in tabs]
    for place in places:
        page.evaluate("(place) => { location.hash = place; }", place)
        page.locator("main .loading").first.wait_for(state="detached")
        assert page.locator("main h1").count() == 1, place
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, a')].filter((node) =>
                !(node.textContent.trim() || node.getAttribute('aria-label') || node.labels?.length))
                .map((node) => node.outerHTML)"""
        )
        assert nameless == [], place


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(page: Any, stack: Stack, scheme: str) -> None:
    """WCAG AA, measured on what is painted: 4.5 to 1."""
    page.emulate_media(color_scheme=scheme)
    sign_in(page, stack.token)
    page.get_by_role("link", name="OutboundMail").wait_for()
    worst = page.evaluate(CONTRAST)
    assert worst[0] >= 4.5, worst
    pause(stack.queue("OutboundMail"), "olga")
    page.evaluate("() => { location.hash = '#/queues/OutboundMail/history'; }")
    page.get_by_text("Standing still because").wait_for()
    page.get_by_role("img", name="Depth").wait_for()
    worst = page.evaluate(CONTRAST)
    assert worst[0] >= 4.5, worst
    page.get_by_role("button", name="Switch between").click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == ("dark" if scheme == "light" else "light")
    assert page.evaluate(CONTRAST)[0] >= 4.5


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const written = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  let worst = [99, ''];
  for (const node of document.querySelectorAll('body *')) {
    if (!written(node) || !node.checkVisibility() || node.closest('.unseen, .skip')) continue;
    const pair = [light(parse(getComputedStyle(node).color)), light(ground(node))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < worst[0]) worst = [ratio, node.outerHTML.slice(0, 200)];
  }
  return worst;
}"""
