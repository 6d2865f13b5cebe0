"""A queue in words."""

from __future__ import annotations

import pytest

from millrace.definitions import load
from millrace.definitions.explain import describe_wait, in_words, limits, next_runs, timetable
from millrace.model.queue_spec import Jitter, RetryPolicy
from tests.definitions.writing import loaded, queue_text
from tests.worker.definitions import compiled


def test_the_timetable_doubles_up_to_its_cap() -> None:
    attempts = timetable(RetryPolicy(max_attempts=6, initial_backoff_ms=1000, max_backoff_ms=5000))
    assert [attempt.wait_ms for attempt in attempts] == [0, 1000, 2000, 4000, 5000, 5000]
    assert attempts[-1].since_first_ms == 17_000


def test_jitter_is_said() -> None:
    first, second = timetable(RetryPolicy(max_attempts=2))
    assert describe_wait(first, Jitter.FULL) == "at once"
    assert describe_wait(second, Jitter.FULL) == "up to 500 ms"
    assert describe_wait(second, Jitter.NONE) == "500 ms"


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1500, "1.5 s"),
        (90_061_000, "1 d 1 h 1 min 1 s"),
        (3_600_000, "1 h"),
    ],
)
def test_lengths_of_time_are_said_as_people_do(milliseconds: int, words: str) -> None:
    assert in_words(milliseconds) == words


def test_limits_name_order_depth_filter_and_destinations() -> None:
    said = dict(limits(load("infra/definitions.json").queue("RepositoryEvents")))
    assert said["order"] == "as they came within one payload.repository.full_name"
    assert said["no key"].endswith("has no value share the group (none)")
    assert said["takes"] == "an object with payload, headers, source_ip, received_at"
    assert said["at most"] == "50,000 unfinished messages, then 503"
    assert said["only if"].startswith('headers["x-github-event"] in')
    assert said["goes to"].startswith("command Deployment.RecordEvent with event, repository")


def test_headers_that_nobody_signs_are_marked() -> None:
    definitions = load("infra/definitions.json")
    said = list(limits(definitions.queue("RepositoryEvents"), definitions.webhooks_of("RepositoryEvents")))
    marked = [sentence for name, sentence in said if name == "not signed"]
    assert marked == [
        "the header x-github-event, read by filter, event: github (webhook GitHub) does not sign it",
    ]


def test_what_the_clock_enqueues_is_told_with_its_next_times() -> None:
    definitions = compiled(
        """
        queue Reports { message_type { n: int }  drained_by: api }
        schedule Nightly { cron: "30 2 * * *"  timezone: "Europe/Berlin"  queue: Reports  message: {"n": 1} }
        """
    )
    saturday = 1_774_695_600_000  # 28 March 2026, noon in Berlin: the clock is changed in the night
    ((name, sentence),) = next_runs(definitions.schedules_of("Reports"), saturday)
    assert name == "schedule"
    assert sentence.startswith("Nightly: 30 2 * * * (Europe/Berlin), missed ticks: latest; ")
    assert sentence.endswith("next 2026-03-29 03:00 CEST, 2026-03-30 02:30 CEST, 2026-03-31 02:30 CEST")


def test_places_of_a_key_are_said_beside_the_order() -> None:
    queue = loaded(queue_text("ordering: per_key(payload.id)  concurrency_per_key: 3")).queue("Jobs")
    said = dict(limits(queue))
    assert said["order"] == "as they came within one payload.id, 3 at once"
    assert said["of one key"] == "at most 3 in hand; one that waits for its next try is among them"
    assert "of one key" not in dict(limits(loaded(queue_text("ordering: per_key(payload.id)")).queue("Jobs")))


def test_a_queue_without_a_dictionary_says_so() -> None:
    assert "packing" in dict(limits(loaded(queue_text("dictionary: false")).queue("Jobs")))
    assert "packing" not in dict(limits(loaded(queue_text("")).queue("Jobs")))
