"""A folder of work items, read as Spark reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.items.folder import as_json, find_cycles, in_turn, item_files, read_file, read_folder, set_status
from millrace.items.front_matter import Malformed, read_markdown


def write(folder: Path, name: str, head: str, text: str = "Do it.\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"---\n{head}\n---\n{text}".encode())
    return path


def states(folder: Path) -> dict[str, tuple[str, str]]:
    return {item.path.stem: (item.state.value, item.reason) for item in read_folder(folder)}


def test_every_state(tmp_path: Path) -> None:
    write(tmp_path, "free.md", "id: free\nstatus: pending\ndepends_on: [over]")
    write(tmp_path, "over.md", "id: over\nstatus: done\ndepends_on: [nowhere]")
    write(tmp_path, "deep/waits.md", "id: waits\nstatus: pending\ndepends_on: [free, over]")
    write(tmp_path, "lost.md", "id: lost\nstatus: pending\ndepends_on: [nowhere, twin, free]")
    write(tmp_path, "busy.md", "id: busy\nstatus: in_progress")
    one, two = write(tmp_path, "one.md", "id: twin\nstatus: done"), write(tmp_path, "two.md", "id: twin\nstatus: done")
    write(tmp_path, "bad.md", "id: [")
    write(tmp_path, "nameless.md", "status: pending")
    write(tmp_path, ".millrace/x.md", "id: x\nstatus: pending")
    write(tmp_path, "_drafts/x.md", "id: x\nstatus: pending")
    write(tmp_path, "notes.txt", "id: x\nstatus: pending")
    found = states(tmp_path)
    assert found.pop("bad")[0] == found.pop("nameless")[0] == "malformed"
    assert found == {
        "free": ("ready", ""),
        "over": ("done", ""),
        "waits": ("blocked", "waits for free"),
        "lost": ("missing_dependency", "no file defines nowhere, twin"),
        "busy": ("other", ""),
        "one": ("duplicate_id", f"duplicate_id: the id is also in {two}"),
        "two": ("duplicate_id", f"duplicate_id: the id is also in {one}"),
    }


def test_what_is_ready_comes_by_priority_then_by_path(tmp_path: Path) -> None:
    for name, priority in (("a", ""), ("b", "priority: high"), ("c", "priority: 70"), ("d", "priority: odd")):
        write(tmp_path, f"{name}.md", f"id: {name}\nstatus: pending\n{priority}")
    assert [item.id for item in in_turn(read_folder(tmp_path))] == ["b", "c", "a", "d"]


def test_filters_and_json(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md", "id: a\nstatus: pending\nproject: p\nlabels: [x, y]")
    (item,) = read_folder(tmp_path)
    assert item.matches("p", ["x"])
    assert item.matches(None, ["x", "y"])
    assert not item.matches("q", [])
    assert not item.matches(None, ["z"])
    assert as_json(item) == {
        "id": "a", "state": "ready", "reason": None, "priority": 50, "project": "p", "labels": ["x", "y"],
        "depends_on": [], "file": str(path), "lock": None,
    }  # fmt: skip


def test_cycles_are_found(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "id: a\nstatus: pending\ndepends_on: b")
    write(tmp_path, "b.md", "id: b\nstatus: pending\ndepends_on: a")
    write(tmp_path, "c.md", "id: c\nstatus: pending\ndepends_on: a")
    assert find_cycles(read_folder(tmp_path)) == [["a", "b"]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_status_is_written_and_nothing_else_changes(tmp_path: Path, end: str) -> None:
    text = end.join(["---", "id: a # first", "status: 'pending'  # now", "x: {status: 1}", "---", "status: no", ""])
    path = tmp_path / "a.md"
    path.write_bytes(text.encode())
    path.chmod(0o640)
    set_status(read_file(path), "done")
    assert path.read_bytes() == text.replace("status: 'pending'  # now", "status: done").encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [found.name for found in tmp_path.iterdir()] == ["a.md"]


def test_a_file_that_changed_meanwhile_or_hides_its_status_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md", "id: a\nstatus: pending")
    seen = read_file(path)
    write(tmp_path, "a.md", "id: a\nstatus: pending\npriority: high")
    with pytest.raises(Malformed, match="changed meanwhile"):
        set_status(seen, "done")
    for head in ("{id: a, status: pending}", "id: a\n? status\n: pending", "id: a\nstatus:\n  pending"):
        path = write(tmp_path, "b.md", head)
        before = path.read_bytes()
        with pytest.raises(Malformed):
            set_status(read_file(path), "done")
        assert path.read_bytes() == before
        assert read_markdown(before)["status"] == "pending"


def test_files_are_those_that_spark_finds(tmp_path: Path) -> None:
    names = ["a.md", "b/c.md", "_x/d.md", ".x/e.md", "_f.md", ".g.md", "h.MD", "i.md.bak"]
    for name in names:
        write(tmp_path, name, "id: a\nstatus: pending")
    assert [str(path.relative_to(tmp_path)) for path in item_files(tmp_path)] == ["a.md", "b/c.md"]
