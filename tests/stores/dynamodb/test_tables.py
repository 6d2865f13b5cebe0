"""The PynamoDB models and the spelling of items name the same attributes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import fields, replace
from typing import Any

import pytest
from pynamodb.models import Model

from millrace.model.dictionary import Dictionary
from millrace.model.message import Body
from millrace.model.queue_samples import QueueSample
from millrace.model.queue_state import BreakerState, Slot
from millrace.stores.dynamodb import counters, dead_letters, dictionaries, items, queue_samples, tables
from tests.stores.samples import Samples, claimed

SAMPLES = Samples("tenant")
ENTRY = claimed(SAMPLES.entry())
INLINE = SAMPLES.message(body=Body(b"x", "zlib", size=9))
IN_BLOB = replace(INLINE, body=Body(b"", "zlib", "blob", 9, b"digest", encrypted=True))
RESULTS = [items.result_item(SAMPLES.result("m", encrypted=encrypted)) for encrypted in (False, True)]
STATES = [
    items.workflow_state_item("m", replace(SAMPLES.workflow_state(), encrypted=encrypted))
    for encrypted in (False, True)
]


def both(*spelled: dict[str, Any]) -> dict[str, str]:
    """Names and types over every form that the item can take."""
    return {name: next(iter(value)) for item in spelled for name, value in item.items()}


SPELLED: dict[type[Model], dict[str, str]] = {
    tables.EntryItem: both(items.entry_item(ENTRY)),
    tables.MessageItem: both(items.message_item(INLINE), items.message_item(IN_BLOB)),
    tables.LocationItem: both(items.location_item(SAMPLES.moved(ENTRY)[1])),
    tables.ResultItem: both(*RESULTS),
    tables.SlotItem: both(counters.slot_item("t", "q", Slot(1, "token", 2))),
    tables.SweepPositionItem: both(counters.sweep_position_item("sweep", "t#q")),
    tables.DictionaryItem: both(dictionaries.dictionary_item("t", "q", Dictionary(b"shared").stored(1))),
    tables.BodySampleItem: both(dictionaries.body_sample_item("t", "q", ["a"], 1)),
    tables.SampleItem: both(
        {
            name: value
            for name, value in (
                queue_samples.samples_key("t", "q", 0)
                | queue_samples.sample_attributes(QueueSample(0, 1, 2, 3, 4, 5, 6))
            ).items()
            if name != "s00"
        }
    ),
    tables.WorkflowStateItem: both(*STATES),
    tables.DeadLetterItem: both(
        dead_letters.dead_letter_item(SAMPLES.dead_letter(INLINE)),
        dead_letters.dead_letter_item(SAMPLES.dead_letter(IN_BLOB)),
    ),
}


@pytest.mark.parametrize("model", SPELLED, ids=lambda model: model.__name__)
def test_model_and_item_name_the_same_attributes(model: type[Model]) -> None:
    described = {attribute.attr_name: attribute.attr_type for attribute in model.get_attributes().values()}
    assert SPELLED[model] == described


@pytest.mark.parametrize("model", SPELLED, ids=lambda model: model.__name__)
def test_optional_attributes_are_those_that_may_be_missing(model: type[Model]) -> None:
    always: Set[str]
    optional = {attribute.attr_name for attribute in model.get_attributes().values() if attribute.null}
    bare = replace(
        INLINE,
        body=Body(b""),
        headers={},
        correlation_id="",
        idempotency_key="",
        source="",
        origin="",
        run="",
        key="",
        project="",
    )
    in_blob = replace(bare, body=Body(blob="blob", digest=b"d"))
    if model is tables.MessageItem:
        always = items.message_item(bare).keys() & items.message_item(in_blob).keys()
    elif model is tables.DeadLetterItem:
        always = (
            dead_letters.dead_letter_item(SAMPLES.dead_letter(bare)).keys()
            & dead_letters.dead_letter_item(SAMPLES.dead_letter(in_blob)).keys()
        )
    elif model in (tables.ResultItem, tables.WorkflowStateItem):
        always = (RESULTS if model is tables.ResultItem else STATES)[0].keys()
    else:
        always = SPELLED[model].keys()
    assert always == SPELLED[model].keys() - optional


def test_queue_state_is_read_from_the_attributes_of_its_model() -> None:
    """Every attribute of the model comes back as a field of its own; the rest are counters and circuit breakers."""
    named = {a.attr_name: a.attr_type for a in tables.QueueStateItem.get_attributes().values()}.items()
    item = {name: {kind: str(number)} for number, (name, kind) in enumerate(sorted(named)) if name not in ("pk", "sk")}
    item[counters.DICTIONARY] = {"S": counters.dictionary_text("", 60_000)}
    state = counters.queue_state_of(item, "t", "q")
    assert state.reviewed_at == 60_000
    del item[counters.DICTIONARY]
    apart = ("tenant", "queue", "listed", "dictionary", "reviewed_at")
    found = [getattr(state, field.name) for field in fields(state) if field.name not in apart]
    plain = [",".join(value) if isinstance(value, tuple) else str(value) for value in found]
    assert state.listed is bool(item.pop(counters.LISTED))
    assert sorted(value for value in plain if value != "{}") == sorted(next(iter(v.values())) for v in item.values())


def test_counters_and_circuit_breakers_of_a_queue_state_are_attributes_by_name() -> None:
    item = {counters.counter(kind, 7): {"N": str(number)} for number, kind in enumerate("gaed")}
    item[counters.BREAKER + "http Orders"] = {"S": counters.breaker_text(BreakerState(5, 2))}
    state = counters.queue_state_of(item, "t", "q")
    assert (state.grants, state.arrivals, state.endings, state.dead_days) == ({7: 0}, {7: 1}, {7: 2}, {7: 3})
    assert state.breakers == {"http Orders": BreakerState(5, 2)}
