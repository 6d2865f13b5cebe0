"""What a scan of the whole table tells of its messages, on every store."""

from __future__ import annotations

from millrace.model.keys import WITHDRAWN
from millrace.model.message import Place
from millrace.stores.interface import Store
from millrace.stores.scanned import EVERY_MESSAGE, ScanFilter, ScannedMessage
from tests.conftest import NOON
from tests.stores.samples import Samples


def test_a_tenants_messages_are_found_in_all_of_the_table(store: Store, samples: Samples) -> None:
    """On every store; of other tenants' messages, and of all that is no message, nothing."""
    messages = samples.messages(7)
    store.put_messages(messages)
    store.put_messages(Samples(f"other-{samples.tenant}").messages(3))
    store.put_entries(samples.entries(3))
    store.put_results([samples.result(message.id) for message in messages])
    found: list[ScannedMessage] = []
    position: str | None = ""
    while position is not None:
        page = store.scan_messages(samples.tenant, position, 4)
        found += page.items
        position = page.next
    assert sorted(owner.id for owner in found) == sorted(message.id for message in messages)
    assert {(owner.queue, owner.key, owner.project) for owner in found} == {("Jobs", "customer/7", "billing")}


def scanned(store: Store, tenant: str, after: str = "", only: ScanFilter = EVERY_MESSAGE) -> list[ScannedMessage]:
    found: list[ScannedMessage] = []
    position: str | None = after
    while position is not None:
        page = store.scan_messages(tenant, position, 100, only)
        assert page.units > 0 or not page.items, "what it looked at is charged"
        found += page.items
        position = page.next
    return found


def test_a_scan_tells_what_leads_to_a_message_and_never_its_body(store: Store, samples: Samples) -> None:
    message = samples.message()
    store.put_messages([message])
    (found,) = scanned(store, samples.tenant)
    assert (found.id, found.nonce, found.place, found.received_at) == (
        message.id, message.nonce, message.place, message.received_at,
    )  # fmt: skip
    assert (found.queue, found.key, found.project) == (message.queue, message.key, message.project)
    assert (found.correlation_id, found.erased) == (message.correlation_id, False)


def test_a_scan_narrows_to_a_queue_and_to_what_was_received_in_a_window(store: Store, samples: Samples) -> None:
    messages = [samples.message(received_at=NOON + number) for number in range(5)]
    store.put_messages([*messages, samples.message(queue="Other", received_at=NOON + 2)])
    found = scanned(store, samples.tenant, only=ScanFilter("Jobs", NOON + 1, NOON + 4))
    assert sorted(one.id for one in found) == sorted(message.id for message in messages[1:4])


def test_a_scan_goes_on_behind_a_message_that_it_gave(store: Store, samples: Samples) -> None:
    store.put_messages(samples.messages(6))
    found = scanned(store, samples.tenant)
    for number, one in enumerate(found):
        assert scanned(store, samples.tenant, one.position) == found[number + 1 :]


def test_a_marker_that_refuses_a_late_commit_is_no_message(store: Store, samples: Samples) -> None:
    entry = samples.entry()
    store.put_entries([entry])
    store.put_messages([samples.message(place=Place(entry.place.pk, WITHDRAWN))])
    assert scanned(store, samples.tenant) == []
