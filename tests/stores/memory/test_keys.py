"""Keys in memory answer as KMS does: for their own context, while they are enabled, until they are deleted."""

from __future__ import annotations

import pytest

from millrace.model.errors import KeyLost, KeyUnavailable
from millrace.stores.memory.keys import MemoryKeys

OURS, THEIRS = {"tenant": "acme", "queue": "Jobs"}, {"tenant": "globex", "queue": "Jobs"}


def test_a_key_lives_until_it_is_deleted() -> None:
    keys = MemoryKeys()
    made = keys.generate("alias/a", OURS)
    assert keys.unwrap(made.key_id, made.wrapped, OURS) == made.secret
    with pytest.raises(KeyLost):
        keys.unwrap(made.key_id, made.wrapped, THEIRS)
    keys.disable("alias/a")
    for call in (lambda: keys.generate("alias/a", OURS), lambda: keys.unwrap(made.key_id, made.wrapped, OURS)):
        with pytest.raises(KeyUnavailable):
            call()
    keys.enable("alias/a")
    assert keys.unwrap(made.key_id, made.wrapped, OURS) == made.secret
    keys.delete("alias/a")
    with pytest.raises(KeyLost):
        keys.unwrap(made.key_id, made.wrapped, OURS)
    with pytest.raises(KeyUnavailable):
        keys.generate("alias/a", OURS)
    assert keys.generate("alias/b", OURS).key_id != made.key_id


def test_a_key_can_be_disabled_before_it_is_used() -> None:
    keys = MemoryKeys()
    keys.disable("alias/a")
    with pytest.raises(KeyUnavailable):
        keys.generate("alias/a", OURS)
