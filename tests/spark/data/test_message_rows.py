"""A life in columns: what is not known is null, and nothing of it is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millrace.engine.status import MessageStatus
from millrace.model.body import pack
from millrace.model.dictionary import Dictionary
from millrace.model.errors import BodyLost, InvalidField
from millrace.model.message import Body
from millrace.spark.data.exports import KnownDictionary
from millrace.spark.data.facts import FACTS, fact_of_item
from millrace.spark.data.lives import Life, Views
from millrace.spark.data.message_rows import LIFE, Deriving, _derive, life_row, pack_lives, read_message_body
from millrace.stores.dynamodb.items import message_item
from tests.conftest import NOON
from tests.stores.samples import Samples

samples = Samples("acme")


def test_a_dead_message_has_all_its_columns() -> None:
    dead = samples.dead_letter(replayed_at=NOON + 5, replayed_as="m2", replay_job="j")
    life = Life(dead.message, [], MessageStatus.DEAD, NOON - 50, NOON, NOON * 1000, dead_letter=dead, body=b"{}")
    life.history = dead.history
    row = life_row(life)
    assert list(row) == list(LIFE)
    (found,) = pack_lives([row]).to_pylist()
    assert (found["status"], found["reason"], found["error_type"]) == ("dead", "exhausted", "ValueError")
    assert (found["key"], found["project"], found["labels"]) == ("customer/7", "billing", ["blue", "eu:west"])
    assert (found["replayed_as"], found["replay_job"], found["dead_letter"]) == ("m2", "j", dead.sk)
    assert [run["number"] for run in found["history"]] == [1, 2]
    assert dict(found["headers"]) == {"x-event": "push"}
    assert found["fingerprint"] == dead.fingerprint


def test_what_is_not_known_is_null() -> None:
    row = life_row(Life(samples.message(), []))
    unknown = {name for name, value in row.items() if value is None}
    assert {"status", "started_at", "ended_at", "priority", "key", "labels", "error", "dead_letter"} <= unknown


def test_a_large_body_needs_its_bucket() -> None:
    message = samples.message(body=Body(b"", "", "acme/Jobs/x", 50_000, b"\0" * 16))
    with pytest.raises(BodyLost, match="in which bucket"):
        read_message_body(Deriving(Views(), None), message)


def test_only_the_queue_that_is_asked_for() -> None:
    fact = fact_of_item(message_item(samples.message()), NOON * 1000)
    assert fact
    given = {"id": fact.id, "facts": [dict(zip(FACTS.names, fact.values(), strict=True))], "kept": [], "erased_at": 0}
    batch = pa.RecordBatch.from_pylist([given])
    for queue, count in (("Jobs", 1), ("Other", 0), (None, 1)):
        (found,) = _derive(Deriving(Views(), None, "acme", queue), [batch])
        assert found.num_rows == count


def test_a_dictionary_that_nobody_has_is_named_and_its_bodies_are_not_lost() -> None:
    shared, data = Dictionary(b"the same as ever, "), b"the same as ever, " * 40
    message = samples.message(body=pack(data, shared))
    known = KnownDictionary(message.tenant, message.queue, shared.stored(NOON))
    assert read_message_body(Deriving(Views(), None, dictionaries=(known,)), message) == data
    with pytest.raises(InvalidField, match=shared.name):
        read_message_body(Deriving(Views(), None), message)


def test_an_encrypted_message_is_read_with_its_key_and_never_kept_in_plain() -> None:
    message = samples.message(body=Body(b"encrypted", size=9, encrypted=True))
    with pytest.raises(InvalidField, match="is encrypted"):
        read_message_body(Deriving(Views(), None), message)
    with pytest.raises(BodyLost, match="not kept in plain"):
        Deriving(Views(), None, decrypts=False).read_body(message)
    result = samples.result(message.id, snapshot=b"encrypted", encrypted=True)
    life = Life(message, [], MessageStatus.DONE)
    life.result = result
    assert life_row(life)["result"] is None
