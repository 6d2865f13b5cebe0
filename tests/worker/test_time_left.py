"""Time left: the earliest end counts, and whoever listens hears of a stop."""

from __future__ import annotations

from millrace.worker import TimeLeft


def test_without_an_end_there_is_none() -> None:
    assert TimeLeft().left_ms() is None


def test_the_earlier_end_counts_and_is_never_negative() -> None:
    now, remaining = [0.0], [60_000]
    time_left = TimeLeft(lambda: remaining[0], monotonic=lambda: now[0])
    time_left.stop(30.0, "SIGTERM")
    assert time_left.left_ms() == 30_000
    time_left.stop(90.0, "later")
    assert (time_left.left_ms(), time_left.reason) == (30_000, "SIGTERM")
    remaining[0] = 1_000
    assert time_left.left_ms() == 1_000
    now[0] = 31.0
    assert time_left.left_ms() == 0


def test_seconds_count_down() -> None:
    now = [100.0]
    time_left = TimeLeft.seconds(5, monotonic=lambda: now[0])
    now[0] += 2
    assert time_left.left_ms() == 3_000


def test_a_listener_hears_of_a_stop_within_its_block_only() -> None:
    time_left, heard = TimeLeft(), []
    with time_left.on_stop(lambda: heard.append("over")):
        pass
    with time_left.on_stop(lambda: heard.append("inner")):
        time_left.stop(1.0, "stopped")
    with time_left.on_stop(lambda: heard.append("late")):
        pass
    assert heard == ["inner", "late"]


def test_a_mark_stops_without_a_lock() -> None:
    time_left = TimeLeft()
    time_left.mark("SIGINT")
    assert (time_left.stopped, time_left.left_ms()) == (True, None)


def test_a_share_ends_with_the_whole_and_ends_nothing_else_by_itself() -> None:
    now, heard = [0.0], list[str]()
    whole = TimeLeft(lambda: 60_000, monotonic=lambda: now[0])
    with whole.share() as one, whole.share() as other, other.on_stop(lambda: heard.append(other.reason)):
        one.stop(5.0, "slot lost")
        assert (one.left_ms(), one.reason) == (5_000, "slot lost")
        assert (other.left_ms(), other.stopped, whole.stopped) == (60_000, False, False)
        whole.mark("SIGTERM")
        assert other.stopped
        whole.stop(25.0, "SIGTERM")
        assert (one.left_ms(), other.left_ms(), one.reason) == (5_000, 25_000, "slot lost")
    assert heard == ["SIGTERM"]
