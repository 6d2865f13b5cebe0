"""Locks outlive a crash of nobody but their holder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.items.locks import Holder, LockHeld, Locks, holder_of, process_began
from tests.conftest import Clock

HERE = Holder("here", 10, "100")


class Processes:
    """Which processes this host has, and when they began."""

    def __init__(self) -> None:
        self.of: dict[int, str] = {10: "100", 11: "200"}

    def __call__(self, pid: int) -> str | None:
        return self.of.get(pid)


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def locks(tmp_path: Path, clock: Clock, processes: Processes) -> Locks:
    return Locks(tmp_path, clock=clock, host="here", began=processes, lost_after_s=60)


def test_one_holder_at_a_time(locks: Locks) -> None:
    lock = locks.take("a", HERE)
    assert locks.read() == {"a": lock}
    with pytest.raises(LockHeld, match="process 10 on here"):
        locks.take("a", replace(HERE, pid=11, began="200"))
    locks.drop(lock)
    assert locks.read() == {}
    assert locks.take("a", HERE).token != lock.token


def test_the_lock_of_a_process_that_is_gone_is_taken_over(locks: Locks, processes: Processes, clock: Clock) -> None:
    old = locks.take("a", HERE)
    clock.forward(10**9)
    assert locks.read(), "it lives, however long it takes"
    del processes.of[10]
    assert locks.read() == {}
    new = locks.take("a", Holder("here", 11, "200"))
    with pytest.raises(LockHeld, match="another claim"):
        locks.check("a", old.token, HERE)
    assert locks.check("a", new.token, HERE) == new


def test_another_process_with_the_same_number_holds_nothing(locks: Locks, processes: Processes) -> None:
    locks.take("a", HERE)
    processes.of[10] = "999"
    assert locks.read() == {}


def test_the_lock_of_another_host_is_lost_by_its_age(locks: Locks, clock: Clock) -> None:
    locks.take("a", Holder("there", 10, "1"))
    clock.forward(60_000)
    assert list(locks.read()) == ["a"]
    clock.forward(1)
    assert locks.read() == {}


def test_a_token_or_the_process_itself_shows_who_holds_it(locks: Locks) -> None:
    with pytest.raises(LockHeld, match="not claimed"):
        locks.check("a", None, HERE)
    lock = locks.take("a", HERE)
    assert locks.check("a", None, HERE) == locks.check("a", lock.token, Holder("x", 1, "")) == lock
    for token, holder in (("wrong", HERE), (None, Holder("here", 10, "999")), (None, Holder("there", 10, "100"))):
        with pytest.raises(LockHeld, match="under another claim"):
            locks.check("a", token, holder)


def test_a_spoilt_lock_is_nobodys_to_take(locks: Locks, tmp_path: Path) -> None:
    locks.take("a", HERE)
    (path,) = (tmp_path / ".millrace" / "locks").glob("*.json")
    path.write_text("{")
    with pytest.raises(LockHeld, match="is no lock"):
        locks.take("a", HERE)


def test_real_processes_are_told_apart() -> None:
    assert process_began(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = holder_of(child.pid)
    assert process_began(child.pid) == holder.began != ""
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert process_began(child.pid) is None


def test_the_guard_lets_one_in_at_a_time(tmp_path: Path) -> None:
    """Twenty processes count in one file; without the guard some would overwrite each other."""
    script = (
        "import sys; from pathlib import Path; from millrace.items.locks import Locks\n"
        "folder = Path(sys.argv[1]); count = folder / 'count'\n"
        "for _ in range(25):\n"
        "    with Locks(folder).guarded():\n"
        "        count.write_text(str(int(count.read_text()) + 1))\n"
    )
    (tmp_path / "count").write_text("0")
    shared = str(Path(__file__).parents[2] / "shared")
    environment = {**os.environ, "PYTHONPATH": shared}
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=environment) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert json.loads((tmp_path / "count").read_text()) == 100
