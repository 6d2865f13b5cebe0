"""Every write of a store as one step: how it is prepared, done, and what must then be so.

Whatever the connection does, a step ends as it would have on a good day: the same outcome, and the same items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from millrace.model.clock import system_entropy
from millrace.model.dictionary import Dictionary
from millrace.model.ids import random_token
from millrace.model.keys import END, READY
from millrace.model.message import Entry, MessageLocation, Records
from millrace.model.queue_samples import QueueSample
from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.interface import APPLIED, AcceptStep, EndStep, Erasure, Store
from tests.conftest import NOON
from tests.stores.samples import Samples, all_claimed, claimed


@dataclass(frozen=True, slots=True)
class Step:
    act: Callable[[], Any]
    outcome: Any  #: what it must answer
    look: Callable[[], Any]
    seen: Any  #: what must be there afterwards


Prepare = Callable[[Store, Samples, int], Step]


def _lane(store: Store, samples: Samples) -> Callable[[], tuple[Entry, ...]]:
    return lambda: store.read_lane(samples.pk, READY, READY + END, 100).items


def _held(store: Store, samples: Samples, count: int) -> list[Entry]:
    entries = samples.entries(count)
    store.put_entries(entries)
    held = all_claimed(entries)
    store.claim_entries(held, NOON)
    return held


def put_entries(store: Store, samples: Samples, count: int) -> Step:
    entries = samples.entries(count)
    return Step(lambda: store.put_entries(entries), [APPLIED] * count, _lane(store, samples), tuple(entries))


def drop_entries(store: Store, samples: Samples, count: int) -> Step:
    entries = samples.entries(count)
    store.put_entries(entries)
    return Step(lambda: store.drop_entries(entries), [APPLIED] * count, _lane(store, samples), ())


def claim_entries(store: Store, samples: Samples, count: int) -> Step:
    entries = samples.entries(count)
    store.put_entries(entries)
    held = all_claimed(entries)
    return Step(lambda: store.claim_entries(held, NOON), [APPLIED] * count, _lane(store, samples), tuple(held))


def end_entries(store: Store, samples: Samples, count: int) -> Step:
    held = _held(store, samples, count)
    return Step(lambda: store.end_entries(held), [APPLIED] * count, _lane(store, samples), ())


def end_together(store: Store, samples: Samples, _count: int) -> Step:
    held = _held(store, samples, 30)
    token = random_token(system_entropy)
    return Step(lambda: store.end_together(held, token), APPLIED, _lane(store, samples), ())


def extend_entries(store: Store, samples: Samples, count: int) -> Step:
    held = _held(store, samples, count)
    longer = [replace(entry, until=entry.until + 500) for entry in held]
    tokens = [entry.token for entry in held]
    act = lambda: store.hold_entries(longer, tokens)  # noqa: E731 (one line among its like)
    return Step(act, [APPLIED] * count, _lane(store, samples), tuple(longer))


def release_entries(store: Store, samples: Samples, count: int) -> Step:
    held = _held(store, samples, count)
    free = [entry.unclaimed() for entry in held]
    tokens = [entry.token for entry in held]
    return Step(lambda: store.hold_entries(free, tokens), [APPLIED] * count, _lane(store, samples), tuple(free))


def put_messages(store: Store, samples: Samples, count: int) -> Step:
    messages = samples.messages(count)
    there = {message.id: message for message in messages}
    return Step(lambda: store.put_messages(messages), [APPLIED] * count, lambda: store.get_messages(list(there)), there)


def replace_message(store: Store, samples: Samples, _count: int) -> Step:
    old = samples.message()
    store.put_messages([old])
    new = replace(old, nonce="new")
    store.put_entries([samples.entry(place=new.place, id=new.id, nonce=new.nonce)])
    return Step(
        lambda: store.replace_message(new, old.nonce), APPLIED, lambda: store.get_messages([old.id]), {old.id: new}
    )


def put_results(store: Store, samples: Samples, count: int) -> Step:
    results = [samples.result(entry.id) for entry in samples.entries(count)]
    look = lambda: [store.get_records(result.id).result for result in results]  # noqa: E731
    return Step(lambda: store.put_results(results), None, look, results)


def move_entry(store: Store, samples: Samples, _count: int) -> Step:
    (held,) = _held(store, samples, 1)
    new, location = samples.moved(held)
    look = lambda: (store.get_entry(held.place), store.get_entry(new.place), store.get_location(held.id))  # noqa: E731
    return Step(lambda: store.move_entry(held, new, location), APPLIED, look, (None, new, location))


def change_in_place(store: Store, samples: Samples, _count: int) -> Step:
    (held,) = _held(store, samples, 1)
    new = replace(held.unclaimed(), due=NOON + 9)
    location = replace(samples.moved(held)[1], place=held.place)
    look = lambda: (store.get_entry(held.place), store.get_location(held.id))  # noqa: E731
    return Step(lambda: store.move_entry(held, new, location), APPLIED, look, (new, location))


def transact_ending(store: Store, samples: Samples, _count: int) -> Step:
    (held,) = _held(store, samples, 1)
    result = samples.result(held.id, nonce=held.nonce, version=held.version)
    return Step(
        lambda: store.transact([EndStep(held, result)], (), random_token(system_entropy)),
        APPLIED,
        lambda: (store.get_entry(held.place), store.get_records(held.id).result),
        (None, result),
    )


def transact_acceptance(store: Store, samples: Samples, _count: int) -> Step:
    entry = samples.entry()
    message = samples.message(entry)
    return Step(
        lambda: store.transact([AcceptStep(message, entry)], (), random_token(system_entropy)),
        APPLIED,
        lambda: (store.get_entry(entry.place), store.get_messages([entry.id])),
        (entry, {entry.id: message}),
    )


def bury_entry(store: Store, samples: Samples, _count: int) -> Step:
    (held,) = _held(store, samples, 1)
    dead_letter = samples.dead_letter(samples.message(held))
    look = lambda: (  # noqa: E731
        store.get_entry(held.place),
        store.get_location(held.id),
        store.read_dead_letters(samples.tenant, samples.queue, "", END, 5).items,
    )
    return Step(
        lambda: store.bury_entry(held, samples.buried(dead_letter), dead_letter),
        APPLIED,
        look,
        (None, samples.buried(dead_letter), (dead_letter,)),
    )


def erase_message(store: Store, samples: Samples, _count: int) -> Step:
    (held,) = _held(store, samples, 1)
    message = samples.message(held)
    store.put_messages([message])
    husk, trace = message.husk(samples.pk), MessageLocation(held.id, held.nonce, None, NOON // 1000, purged_at=NOON)
    look = lambda: (store.get_entry(held.place), store.get_records(held.id))  # noqa: E731
    erasure = Erasure(husk, trace, entry=held)
    return Step(lambda: store.erase_message(erasure), APPLIED, look, (None, Records(husk, trace)))


def drop_records(store: Store, samples: Samples, _count: int) -> Step:
    (held,) = _held(store, samples, 1)
    store.move_entry(held, *samples.moved(held))
    look = lambda: store.get_records(held.id)  # noqa: E731
    return Step(lambda: store.drop_records(held.id, held.nonce), None, look, Records())


def put_workflow_state(store: Store, samples: Samples, _count: int) -> Step:
    (held,) = _held(store, samples, 1)
    store.put_workflow_state(held, samples.workflow_state(1), NOON)
    second = samples.workflow_state(2, b"step 2")
    look = lambda: store.get_records(held.id).workflow_state  # noqa: E731
    return Step(lambda: store.put_workflow_state(held, second, NOON), APPLIED, look, second)


def mark_replayed(store: Store, samples: Samples, _count: int) -> Step:
    dead_letter = _dead_letter(store, samples)
    marked = replace(dead_letter, replayed_at=NOON, replayed_as="m2", replay_job="j")
    look = lambda: store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk)  # noqa: E731
    return Step(lambda: store.mark_replayed(marked), True, look, marked)


def delete_dead_letter(store: Store, samples: Samples, _count: int) -> Step:
    dead_letter = _dead_letter(store, samples)
    look = lambda: store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk)  # noqa: E731
    return Step(lambda: store.delete_dead_letter(dead_letter), True, look, None)


def put_sample(store: Store, samples: Samples, _count: int) -> Step:
    sample = QueueSample(NOON, 1, 2, 3, 4, 5, 6)
    look = lambda: store.read_samples(samples.tenant, samples.queue, 0)  # noqa: E731
    return Step(lambda: store.put_sample(samples.tenant, samples.queue, sample), None, look, [sample])


def put_dictionary(store: Store, samples: Samples, _count: int) -> Step:
    dictionary = Dictionary(b"shared").stored(NOON)
    owner = (samples.tenant, samples.queue)
    look = lambda: store.get_dictionary(*owner, dictionary.name)  # noqa: E731
    return Step(lambda: store.put_dictionary(*owner, dictionary), None, look, dictionary)


def put_body_sample(store: Store, samples: Samples, _count: int) -> Step:
    owner = (samples.tenant, samples.queue)
    return Step(
        lambda: store.put_body_sample(*owner, ["a", "b"], NOON), None, lambda: store.get_body_sample(*owner), ("a", "b")
    )


def put_webhook_problem(store: Store, samples: Samples, _count: int) -> Step:
    problem = WebhookProblem(samples.tenant, "KEY is not set", NOON, NOON)
    look = lambda: [one for one in store.read_webhook_problems() if one.webhook == samples.tenant]  # noqa: E731
    return Step(lambda: store.put_webhook_problem(problem), None, look, [problem])


def _dead_letter(store: Store, samples: Samples) -> Any:
    held = claimed(samples.entry())
    store.put_entries([held])
    dead_letter = samples.dead_letter(samples.message(held))
    store.bury_entry(held, samples.buried(dead_letter), dead_letter)
    return dead_letter


def set_paused(store: Store, samples: Samples, _count: int) -> Step:
    owner = (samples.tenant, samples.queue)
    return Step(
        lambda: store.set_paused(*owner, NOON, "me").paused_at,
        NOON,
        lambda: store.get_queue_state(*owner).paused_by,
        "me",
    )


def register(store: Store, samples: Samples, _count: int) -> Step:
    owner = (samples.tenant, samples.queue)
    look = lambda: [(one.queue, one.listed) for one in store.list_all_queue_states() if one.tenant == owner[0]]  # noqa: E731
    return Step(lambda: store.register(*owner), None, look, [(samples.queue, True)])


#: Those that take a list, and so go as a plain request or as a batch.
LISTS: list[Prepare] = [
    put_entries,
    drop_entries,
    claim_entries,
    end_entries,
    extend_entries,
    release_entries,
    put_messages,
    put_results,
]
SINGLES: list[Prepare] = [
    end_together,
    replace_message,
    move_entry,
    change_in_place,
    bury_entry,
    erase_message,
    drop_records,
    put_workflow_state,
    transact_ending,
    transact_acceptance,
    mark_replayed,
    delete_dead_letter,
    set_paused,
    register,
    put_sample,
    put_dictionary,
    put_body_sample,
    put_webhook_problem,
]
