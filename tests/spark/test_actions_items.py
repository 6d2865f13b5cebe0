"""Derived queues, replays and reconciliation by a real Spark job."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.finish import RunFailure, ack, reject
from millrace.spark.dead_letters import export_line
from tests.spark.conftest import Desk

# Spark's own: distutils, and sockets to the JVM that end with the process.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning"),
]


def write_items(folder: Path, items: dict[str, dict[str, object]]) -> None:
    folder.mkdir(exist_ok=True)
    for name, fields in items.items():
        head = "".join(f"{field}: {json.dumps(value)}\n" for field, value in fields.items())
        (folder / f"{name}.md").write_text(f"---\n{head}---\nDo {name}.\n")


def test_two_thousand_items_against_a_plain_loop(desk: Desk) -> None:
    chance = random.Random(7)
    items: dict[str, dict[str, object]] = {}
    for n in range(2000):
        known = [f"item-{chance.randrange(n)}" for _ in range(chance.randrange(4))] if n else []
        strange = ["nowhere"] if chance.random() < 0.02 else []
        backward = [f"item-{chance.randrange(2000)}"] if chance.random() < 0.01 else []
        items[f"item-{n}"] = {
            "id": f"item-{n}",
            "status": chance.choices(["done", "pending", "in_progress"], [6, 5, 1])[0],
            "priority": chance.choice(["low", "high", 70]),
            "depends_on": sorted({*known, *strange, *backward}),
            "labels": ["work"],
            "project": "p",
        }
    folder = desk.folder / "items"
    write_items(folder, items)
    (folder / "copy.md").write_text((folder / "item-3.md").read_text())
    (folder / "broken.md").write_text("---\nid: [\n---\n")

    first = desk.run("--action", "derive", "--source", str(folder))
    assert {entry_key(desk, entry.id) for entry in desk.entries()} == oracle(items, {"item-3"}, set())
    assert first.summary["items"]["duplicate_id"] == 2
    assert first.summary["items"]["malformed"] == 1
    assert first.summary["items"]["missing_dependency"] == missing(items, {"item-3"})
    assert first.summary["cycles"] == sorted(cycles(items, {"item-3"}))

    # Files change: some work is done; what became ready is enqueued, nothing else.
    queued = {entry_key(desk, entry.id) for entry in desk.entries()}
    for name in sorted(queued)[::3]:
        items[name]["status"] = "done"
    write_items(folder, items)
    second = desk.run("--action", "derive", "--source", str(folder))
    ready = oracle(items, {"item-3"}, queued)
    assert second.counts["inserted"] == len(ready) > 0
    assert {entry_key(desk, entry.id) for entry in desk.entries()} == queued | ready
    assert second.summary["already_there"] == {"ready": len([n for n in queued if items[n]["status"] == "pending"])}
    third = desk.run("--action", "derive", "--source", str(folder))
    assert "inserted" not in third.counts


def entry_key(desk: Desk, message_id: str) -> str:
    return desk.messages([message_id])[message_id].idempotency_key


def usable(items: dict[str, dict[str, object]], doubled: set[str]) -> dict[str, dict[str, object]]:
    return {name: fields for name, fields in items.items() if name not in doubled}


def oracle(items: dict[str, dict[str, object]], doubled: set[str], queued: set[str]) -> set[str]:
    """Pending, every dependency done, not queued."""
    good = usable(items, doubled)
    return {
        name
        for name, fields in good.items()
        if fields["status"] == "pending"
        and all(need in good and good[need]["status"] == "done" for need in fields["depends_on"])  # type: ignore[attr-defined]
        and name not in queued
    }


def missing(items: dict[str, dict[str, object]], doubled: set[str]) -> int:
    good = usable(items, doubled)
    return sum(
        fields["status"] == "pending" and any(need not in good for need in fields["depends_on"])  # type: ignore[attr-defined]
        for fields in good.values()
    )


def cycles(items: dict[str, dict[str, object]], doubled: set[str]) -> list[list[str]]:
    """Groups of blocked items that reach each other, by walking from each."""
    good = usable(items, doubled)
    blocked = {
        name
        for name, fields in good.items()
        if fields["status"] == "pending"
        and any(need not in good or good[need]["status"] != "done" for need in fields["depends_on"])  # type: ignore[attr-defined]
    }
    needs = {name: [need for need in good[name]["depends_on"] if need in blocked] for name in blocked}  # type: ignore[attr-defined]

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(needs[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += needs[name]
        return seen

    reached = {name: reach(name) for name in blocked}
    groups = {
        tuple(sorted(m for m in blocked if m in reached[n] and n in reached[m])) for n in blocked if n in reached[n]
    }
    return [list(group) for group in sorted(groups)]


def kill_some(desk: Desk, count: int, error: str) -> None:
    queue = desk.queue()
    for held in claim(queue, owner="w", limit=count, lease_ms=60_000).claims:
        reject(queue, held.entry, held.message, RunFailure("Broken", error))


def test_replay_by_filter_once_for_each_run(desk: Desk) -> None:
    source = desk.lines("rows.jsonl", [{"id": f"r{n}"} for n in range(60)])
    desk.run("--source", source, "--idempotency-key", "id")
    kill_some(desk, 25, "bad card")
    kill_some(desk, 15, "no network")
    options = ("--action", "replay", "--error-text", "CARD")

    dry = desk.run(*options, "--dry-run")
    assert dry.code == 0
    assert len(desk.entries()) == 20
    first = desk.run(*options, "--run", "again")
    repeated = desk.run(*options, "--run", "again")

    assert first.counts == repeated.counts == {"inserted": 25}
    assert len(desk.entries()) == 45
    dead_letters = list_dead_letters(desk.queue(), limit=100).items
    assert {dead_letter.replay_job for dead_letter in dead_letters} == {"again", ""}
    replayed = {dead_letter.replayed_as for dead_letter in dead_letters if dead_letter.replay_job}
    assert replayed == {row["message_id"] for row in first.outcomes()}
    origins = {message.origin for message in desk.messages(list(replayed)).values()}
    assert origins == {dead_letter.message.id for dead_letter in dead_letters if dead_letter.replay_job}

    # The same dead letters from an export: the same run has replayed them, another run does it again.
    folder = desk.folder / "export" / "data"
    folder.mkdir(parents=True)
    with gzip.open(folder / "part.json.gz", "wt") as file:
        file.writelines(export_line(dead_letter) + "\n" for dead_letter in dead_letters)
    assert desk.run(*options, "--source", str(desk.folder / "export"), "--run", "again").counts == {"inserted": 25}
    assert len(desk.entries()) == 45
    assert desk.run("--action", "replay", "--source", str(desk.folder / "export")).counts == {"inserted": 40}


def test_reconcile_says_where_every_row_is(desk: Desk) -> None:
    desk.run("--source", desk.lines("old.jsonl", [{"id": f"r{n}"} for n in range(50)]), "--idempotency-key", "id")
    kill_some(desk, 10, "broken")
    queue = desk.queue()
    held = claim(queue, owner="w", limit=20, lease_ms=60_000).claims
    ack(queue, [c.entry for c in held[:15]], [b"{}"] * 15)
    before = desk.entries()

    source = desk.lines("sent.jsonl", [*({"id": f"r{n}"} for n in range(70)), {"id": "r1"}, "bad"])
    ran = desk.run("--action", "reconcile", "--source", source, "--idempotency-key", "id")

    counts = ran.counts
    assert counts.pop("rejected") == 1
    assert sum(counts.values()) == 71
    assert counts["missing"] == 20
    missing_keys = {row["idempotency_key"] for row in ran.outcomes() if row["outcome"] == "missing"}
    assert missing_keys == {f"r{n}" for n in range(50, 70)}
    assert {name: counts[name] for name in ("done", "dead")} in (
        {"done": 15, "dead": 10},
        {"done": 16, "dead": 10},
        {"done": 15, "dead": 11},
    ), "r1 is asked for twice, wherever it is"
    assert desk.entries() == before
