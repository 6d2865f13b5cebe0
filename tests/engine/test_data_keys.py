"""KMS is asked once for many messages, and a key that is out of use there is so here within minutes."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from millrace.engine.data_keys import ASK_AGAIN_MS, KEPT, USE_MS, USES, DataKeys
from millrace.model.encryption import Belonging, DataKey, EncryptedContent
from millrace.model.errors import KeyLost, KeyUnavailable
from millrace.stores.memory.keys import MemoryKeys
from tests.conftest import Clock

OURS = Belonging("body", "acme", "Jobs", "m1", "n1")
THEIRS = Belonging("body", "globex", "Jobs", "m1", "n1")


@pytest.fixture
def kms() -> MemoryKeys:
    return MemoryKeys()


@pytest.fixture
def keys(kms: MemoryKeys, clock: Clock) -> DataKeys:
    return DataKeys(kms, clock)


def content(key: DataKey) -> EncryptedContent:
    return EncryptedContent(b"", key.key_id, key.wrapped, b"", b"")


def test_a_data_key_serves_many_contents_and_then_no_more(keys: DataKeys, kms: MemoryKeys) -> None:
    made = {keys.to_encrypt("alias/a", OURS).wrapped for _ in range(USES)}
    assert (len(made), kms.calls) == (1, [("generate", "alias/a")])
    assert keys.to_encrypt("alias/a", OURS).wrapped not in made


def test_a_data_key_serves_for_minutes(keys: DataKeys, kms: MemoryKeys, clock: Clock) -> None:
    first = keys.to_encrypt("alias/a", OURS)
    clock.forward(USE_MS - 1)
    assert keys.to_encrypt("alias/a", OURS) == first
    clock.forward(1)
    assert keys.to_encrypt("alias/a", OURS) != first
    keys.to_decrypt(content(first), OURS)
    assert [verb for verb, _ in kms.calls] == ["generate", "generate", "unwrap"]


def test_who_made_a_key_reads_with_it_and_another_process_asks_once(
    keys: DataKeys, kms: MemoryKeys, clock: Clock
) -> None:
    made = keys.to_encrypt("alias/a", OURS)
    assert keys.to_decrypt(content(made), OURS) == made.secret
    other = DataKeys(kms, clock)
    assert [other.to_decrypt(content(made), OURS) for _ in range(9)] == [made.secret] * 9
    assert [verb for verb, _ in kms.calls] == ["generate", "unwrap"]


def test_a_key_of_one_tenant_is_not_known_for_another(keys: DataKeys) -> None:
    made = keys.to_encrypt("alias/a", OURS)
    assert keys.to_encrypt("alias/a", THEIRS) != made
    with pytest.raises(KeyLost):  # KMS refuses it: it was wrapped for somebody else
        keys.to_decrypt(content(made), THEIRS)


def test_a_key_that_cannot_be_used_is_asked_for_once_a_second(keys: DataKeys, kms: MemoryKeys, clock: Clock) -> None:
    kms.disable("alias/a")
    for _ in range(5):
        with pytest.raises(KeyUnavailable, match="disabled"):
            keys.to_encrypt("alias/a", OURS)
    assert len(kms.calls) == 1
    kms.enable("alias/a")
    clock.forward(ASK_AGAIN_MS)
    assert keys.to_encrypt("alias/a", OURS).secret


def test_the_keys_of_a_process_are_bounded(keys: DataKeys) -> None:
    for number in range(KEPT):
        keys.to_encrypt(f"alias/{number}", OURS)
    assert len(keys._known) == KEPT


def test_a_process_without_kms_says_so(clock: Clock) -> None:
    with pytest.raises(KeyUnavailable, match="given no access to KMS"):
        DataKeys(None, clock).to_encrypt("alias/a", OURS)


class SlowKeys(MemoryKeys):
    """Answers of one key when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        if key == "alias/slow":
            self.asked.set()
            assert self.answer.wait(20)
        return super().generate(key, context)


def test_a_key_that_is_slow_to_come_holds_up_no_other_and_is_asked_for_once(clock: Clock) -> None:
    kms = SlowKeys()
    keys = DataKeys(kms, clock)
    waiting = [threading.Thread(target=keys.to_encrypt, args=("alias/slow", OURS)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert kms.asked.wait(20)
    assert keys.to_encrypt("alias/other", OURS).secret
    kms.answer.set()
    for thread in waiting:
        thread.join(20)
    assert sorted(kms.calls) == [("generate", "alias/other"), ("generate", "alias/slow")]
