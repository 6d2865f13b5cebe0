"""The local stack of a folder is found when nothing is set, and its token goes to no other address."""

from __future__ import annotations

from pathlib import Path

from infra.local.places import Places
from millrace.app.layout import App
from millrace.cli.connection import DEFAULT_URL, Exit, connection_of
from millrace.cli.local import find_local
from tests.cli.terminal import Terminal
from tests.pull.stack import Stack


def tell(stack: Stack, folder: Path, token: str, engine_url: str) -> Path:
    """A `.local` as the stack writes it, and a folder below it."""
    home = folder / ".local"
    home.mkdir()
    Places(App(home), home, engine_url, "").publish(stack.url)
    (home / "token").write_text(f"{token}\n")
    table = (home / "table.json").read_text().replace("millrace-queue", stack.table)
    (home / "table.json").write_text(table)
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    return below


def test_url_token_and_table_come_from_the_nearest_folder(
    stack: Stack, tenant: str, tmp_path: Path, engine_url: str
) -> None:
    terminal = Terminal.bare(tell(stack, tmp_path, stack.token(tenant), engine_url))
    assert [queue["name"] for queue in terminal.json("queues")] == ["Jobs", "Quick", "Ordered"]
    made = terminal.json("tokens", "create", "mine", "-s", "read", "-t", tenant)
    assert made["id"] in {token["id"] for token in terminal.json("tokens", "list")}
    terminal.environment["MILLRACE_TOKEN"] = made["token"]
    terminal.run("queues")
    terminal.run("pause", "Jobs", exit_code=Exit.DENIED)


def test_a_local_token_goes_to_no_other_address(tmp_path: Path) -> None:
    terminal = Terminal.bare(tmp_path)
    home = tmp_path / ".local"
    home.mkdir()
    (home / "url").write_text("http://127.0.0.1:9\n")
    (home / "token").write_text("mrt_local\n")
    assert "local stack running" in terminal.run("queues", exit_code=Exit.NOT_NOW).stderr.decode()
    terminal.environment["MILLRACE_URL"] = "http://127.0.0.1:10"
    assert "No token" in terminal.run("queues", exit_code=Exit.DENIED).stderr.decode()


def test_what_is_given_wins(tmp_path: Path) -> None:
    assert find_local(tmp_path) is None
    given = connection_of("http://elsewhere", "mrt_x", None, "table")
    assert (given.url, given.token) == ("http://elsewhere", "mrt_x")
    assert DEFAULT_URL.startswith("http://127.0.0.1")


def test_a_stack_that_has_not_made_its_token_and_table_yet(tmp_path: Path) -> None:
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local" / "url").write_text("http://127.0.0.1:9\n")
    found = find_local(tmp_path)
    assert found is not None
    assert (found.url, found.token, found.table) == ("http://127.0.0.1:9", None, None)
