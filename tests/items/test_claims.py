"""Claim, finish, give back: one hand at a time, and no stale one changes a file."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from millrace.items.claims import (
    EnqueuedItems,
    ItemFilter,
    claim_items,
    finish_item,
    not_enqueued,
    ready_items,
    release_item,
)
from millrace.items.folder import in_turn, read_folder
from millrace.items.locks import Holder, LockHeld, Locks
from tests.items.test_folder import write

ANN, BEN = Holder("here", 1, "1"), Holder("here", 2, "2")
EVERY = ItemFilter()


def locks_of(folder: Path, *alive: int) -> Locks:
    return Locks(folder, host="here", began=lambda pid: str(pid) if pid in alive else None)


def a_chain(folder: Path) -> None:
    """c waits for b, b waits for a."""
    write(folder, "a.md", "id: a\nstatus: pending")
    write(folder, "b.md", "id: b\nstatus: pending\ndepends_on: a")
    write(folder, "c.md", "id: c\nstatus: pending\ndepends_on: [a, b]")


def test_a_chain_is_worked_off_in_its_order(tmp_path: Path) -> None:
    a_chain(tmp_path)
    locks = locks_of(tmp_path, 1, 2)
    done = []
    while claimed := claim_items(tmp_path, locks, ANN, EVERY, 5):
        assert ready_items(tmp_path, locks) == []
        (one,) = claimed
        assert claim_items(tmp_path, locks, BEN, EVERY) == []
        finish_item(tmp_path, locks, BEN, one.item.id, one.lock.token)
        done.append(one.item.id)
    assert done == ["a", "b", "c"]
    assert {item.state.value for item in read_folder(tmp_path)} == {"done"}


def test_what_is_given_back_is_ready_again(tmp_path: Path) -> None:
    a_chain(tmp_path)
    locks = locks_of(tmp_path, 1)
    (one,) = claim_items(tmp_path, locks, ANN, EVERY)
    release_item(locks, ANN, "a", one.lock.token)
    assert [item.id for item in ready_items(tmp_path, locks)] == ["a"]
    with pytest.raises(LockHeld):
        release_item(locks, ANN, "a", one.lock.token)


def test_who_lost_a_claim_finishes_nothing(tmp_path: Path) -> None:
    a_chain(tmp_path)
    (lost,) = claim_items(tmp_path, locks_of(tmp_path, 1, 2), ANN, EVERY)
    alive = locks_of(tmp_path, 2)  # Ann's process is gone
    (taken,) = claim_items(tmp_path, alive, BEN, EVERY)
    assert taken.item.id == "a"
    before = taken.item.path.read_bytes()
    with pytest.raises(LockHeld):
        finish_item(tmp_path, alive, ANN, "a", lost.lock.token)
    with pytest.raises(LockHeld):
        release_item(alive, ANN, "a", lost.lock.token)
    assert (taken.item.path.read_bytes(), list(alive.read())) == (before, ["a"])
    finish_item(tmp_path, alive, BEN, "a", None)


def test_a_crash_after_the_file_and_before_the_lock_is_finished_by_a_repeat(tmp_path: Path) -> None:
    a_chain(tmp_path)
    locks = locks_of(tmp_path, 1)
    (one,) = claim_items(tmp_path, locks, ANN, EVERY)
    write(tmp_path, "a.md", "id: a\nstatus: done")
    assert [item.id for item in ready_items(tmp_path, locks)] == ["b"]
    finish_item(tmp_path, locks, ANN, "a", one.lock.token)
    assert locks.read() == {}


def test_filters(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "id: a\nstatus: pending\nproject: p\nlabels: [x]")
    write(tmp_path, "b.md", "id: b\nstatus: pending\nproject: q")
    locks = locks_of(tmp_path, 1)
    for only, expected in (
        (ItemFilter("p"), ["a"]),
        (ItemFilter(labels=("x",)), ["a"]),
        (ItemFilter(id="b"), ["b"]),
        (ItemFilter("p", id="b"), []),
    ):
        assert [item.id for item in ready_items(tmp_path, locks, only)] == expected


def test_many_at_once_never_get_the_same(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path, f"{number:02}.md", f"id: item-{number}\nstatus: pending")
    locks = locks_of(tmp_path, 1)
    taken: list[str] = []

    def work() -> None:
        while claimed := claim_items(tmp_path, locks, ANN, EVERY):
            taken.append(claimed[0].item.id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(f"item-{number}" for number in range(30))


def test_what_was_handed_to_a_queue_is_not_handed_over_again(tmp_path: Path) -> None:
    a_chain(tmp_path)
    enqueued = EnqueuedItems(tmp_path, "Jobs")
    (item,) = not_enqueued(in_turn(read_folder(tmp_path)), enqueued)
    enqueued.add("a")
    assert not_enqueued([item], EnqueuedItems(tmp_path, "Jobs")) == []
    assert not_enqueued([item], EnqueuedItems(tmp_path, "Other")) == [item]
    write(tmp_path, "a.md", "id: a\nstatus: pending\nrevision: 2")
    assert len(not_enqueued(in_turn(read_folder(tmp_path)), enqueued)) == 1, "another revision runs again"
