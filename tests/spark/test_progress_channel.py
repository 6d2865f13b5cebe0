"""Counts on their way from a running task to the driver: the latest of each task, from whoever knows the token."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from millrace.spark import progress_channel
from millrace.spark.progress_channel import Channel, ProgressSender, ProgressServer


@pytest.fixture
def server() -> Iterator[ProgressServer]:
    server = ProgressServer("127.0.0.1", "127.0.0.1", "secret")
    yield server
    server.close()


def heard(server: ProgressServer, expected: dict[str, float]) -> bool:
    """Whether the server comes to hold this; it reads in a thread of its own."""
    wait = threading.Event()
    for _ in range(2_000):
        if server.totals() == expected:
            return True
        wait.wait(0.005)
    return False


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_latest_counts_of_all_tasks_add_up_and_a_repeated_task_replaces_its_first_try(
    server: ProgressServer,
) -> None:
    clock = Seconds()
    one, two = (ProgressSender(server.channel, task, monotonic=clock) for task in ("1", "2"))
    one.send({"inserted": 10.0})
    two.send({"inserted": 5.0, "units": 2.0})
    assert heard(server, {"inserted": 15.0, "units": 2.0})
    one.send({"inserted": 11.0})  # within the same second
    clock.now = 1.0
    one.send({"inserted": 30.0})
    assert heard(server, {"inserted": 35.0, "units": 2.0})
    ProgressSender(server.channel, "1", monotonic=clock).send({"inserted": 3.0}, last=True)
    assert heard(server, {"inserted": 8.0, "units": 2.0})
    one.send({"inserted": 3.0}, last=True)
    two.send({"inserted": 5.0, "units": 2.0}, last=True)


@pytest.mark.parametrize("first", [b"wrong\n", b"\n", b"secre\n"])
def test_who_does_not_know_the_token_is_not_heard(server: ProgressServer, first: bytes) -> None:
    with socket.create_connection((server.channel.host, server.channel.port), 5) as stranger:
        stranger.sendall(first + json.dumps(["9", {"inserted": 1e9}]).encode() + b"\n")
        stranger.shutdown(socket.SHUT_WR)
        stranger.settimeout(5)
        assert stranger.recv(10) == b""
    assert server.totals() == {}
    assert "secret" not in repr(server.channel)


@pytest.mark.parametrize("line", [b"no JSON\n", b"[1]\n", b'["1", [2]]\n', b'["1", {"a": "x"}]\n'])
def test_what_is_no_count_ends_the_connection_and_nothing_else(server: ProgressServer, line: bytes) -> None:
    with socket.create_connection((server.channel.host, server.channel.port), 5) as odd:
        odd.sendall(b"secret\n" + line)
        odd.settimeout(5)
        assert odd.recv(10) == b""
    ProgressSender(server.channel, "1").send({"inserted": 1.0}, last=True)
    assert heard(server, {"inserted": 1.0})


def test_a_driver_that_cannot_be_reached_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def refuse(*arguments: object) -> None:
        tried.append(arguments)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    clock = Seconds()
    sender = ProgressSender(Channel("driver", 1, "t"), "1", monotonic=clock)
    for clock.now in (0.0, 10.0, 20.0):
        sender.send({"inserted": 1.0})
    assert len(tried) == 1


def test_who_stays_silent_is_not_waited_for(server: ProgressServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_channel, "CONNECT_S", 0.01)
    with socket.create_connection((server.channel.host, server.channel.port), 5) as silent:
        silent.settimeout(5)
        assert silent.recv(10) == b""


def test_an_executor_that_dies_prints_nothing_on_the_driver(
    server: ProgressServer, capfd: pytest.CaptureFixture[str]
) -> None:
    dying = socket.create_connection((server.channel.host, server.channel.port), 5)
    dying.sendall(b'secret\n["1", {"inserted": 1.0}]\n')
    assert heard(server, {"inserted": 1.0})
    dying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    dying.close()  # a reset, as of a killed process
    handlers = [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
    for thread in handlers:
        thread.join(5)
    assert capfd.readouterr().err == ""


def test_without_a_channel_nothing_is_sent() -> None:
    ProgressSender(None, "1").send({"inserted": 1.0}, last=True)
