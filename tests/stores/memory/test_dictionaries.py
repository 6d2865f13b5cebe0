"""Dictionaries in memory. What they promise on every store is in `tests/stores/test_interface_dictionaries.py`."""

from __future__ import annotations

from millrace.model.dictionary import Dictionary
from millrace.stores.memory.dictionaries import MemoryDictionaries


def test_what_was_given_out_does_not_change() -> None:
    store, ids = MemoryDictionaries(), ["a"]
    store.put_body_sample("t", "q", ids, 0)
    ids.append("b")
    assert store.get_body_sample("t", "q") == ("a",)
    store.put_dictionary("t", "q", Dictionary(b"x").stored(1))
    assert list(store.dictionaries) == [("t", "q", Dictionary(b"x").name)]
