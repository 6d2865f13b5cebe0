"""Lines of exports as facts: whatever DynamoDB writes is read, and nothing is passed over in silence."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from millrace.model.audit import AuditEvent
from millrace.model.message import Body
from millrace.spark.data.facts import (
    FACTS,
    Fact,
    FactKind,
    NoExportLine,
    fact_of_item,
    fact_of_line,
    fact_of_row,
    read_lines,
    written_item,
)
from millrace.stores.dynamodb.audit import audit_event_item
from millrace.stores.dynamodb.dead_letters import dead_letter_item
from millrace.stores.dynamodb.items import (
    Item,
    entry_item,
    location_item,
    message_item,
    result_item,
    workflow_state_item,
)
from tests.conftest import NOON
from tests.stores.samples import Samples

AT = NOON * 1000
samples = Samples("acme")
ENTRY = samples.entry()
MESSAGE = samples.message(ENTRY, body=Body(b"\x00\xff", size=2))
EVENT = AuditEvent("e1", NOON, "acme", "t", "ann", "purgeQueue", 1)
ITEMS: dict[FactKind, Item] = {
    FactKind.ENTRY: entry_item(ENTRY),
    FactKind.MESSAGE: message_item(MESSAGE),
    FactKind.LOCATION: location_item(samples.moved(ENTRY)[1]),
    FactKind.RESULT: result_item(samples.result(ENTRY.id, nonce=ENTRY.nonce)),
    FactKind.DEAD_LETTER: dead_letter_item(samples.dead_letter(MESSAGE)),
    FactKind.AUDIT_EVENT: audit_event_item(EVENT),
}


def change(at: int = AT, **images: Item) -> str:
    keys = {name: next(iter(images.values()))[name] for name in ("pk", "sk")}
    named = {name: json.loads(written_item(image)) for name, image in images.items()}
    return json.dumps({"Metadata": {"WriteTimestampMicros": {"N": str(at)}}, "Keys": keys, **named})


@pytest.mark.parametrize("kind", ITEMS)
def test_every_kind_of_item_is_known_in_a_full_export_and_in_an_incremental_one(kind: FactKind) -> None:
    item = ITEMS[kind]
    id_ = "e1" if kind is FactKind.AUDIT_EVENT else ENTRY.id
    expected = Fact(id_, kind, f"{item['pk']['S']}\n{item['sk']['S']}", AT, False, item)
    assert fact_of_line('{"Item":' + written_item(item) + "}", AT) == expected
    assert fact_of_line(change(NewImage=item, OldImage=item), 7) == expected
    gone = fact_of_line(change(AT + 1, OldImage=item), 7)
    assert gone is not None
    assert (gone.gone, gone.at, gone.item) == (True, AT + 1, item)
    assert fact_of_row(*expected.values()) == expected


def test_what_is_nobodys_message_is_left_out() -> None:
    state = workflow_state_item(ENTRY.id, samples.workflow_state())
    counters = {"pk": {"S": "QUEUES"}, "sk": {"S": "acme#Jobs"}, "depth": {"N": "1"}}
    assert [fact_of_item(item, AT) for item in (state, counters)] == [None, None]
    keys_only = {"Metadata": {"WriteTimestampMicros": {"N": "1"}}, "Keys": {"pk": {"S": "M#x"}, "sk": {"S": "M"}}}
    assert fact_of_line(json.dumps(keys_only), AT) is None, "came and went within the window"


@pytest.mark.parametrize(
    "line", ["no json", "{}", "[]", '{"Item": {"pk": {"S": "M#x"}}}', '{"Item": {"pk": {}}}', '{"NewImage": {}}']
)
def test_a_line_that_cannot_be_read_names_its_file(line: str) -> None:
    batch = pa.RecordBatch.from_pydict({"path": ["s3://b/x.json.gz"] * 2, "at": [AT] * 2, "value": ["", line]})
    with pytest.raises(NoExportLine, match=r"s3://b/x\.json\.gz: no line of a DynamoDB export"):
        list(read_lines([batch]))


def test_lines_become_rows() -> None:
    lines = ['{"Item":' + written_item(item) + "}" for item in ITEMS.values()]
    batch = pa.RecordBatch.from_pydict({"path": ["f"] * 6, "at": [AT] * 6, "value": lines})
    (found,) = read_lines([batch])
    assert found.schema == FACTS.schema
    assert found.column("kind").to_pylist() == [kind.value for kind in ITEMS]
