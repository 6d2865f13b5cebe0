"""Hot reload: a changed file restarts the functions, a broken one leaves word, a definition is compiled first."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.local import reload as reloading
from infra.local.functions import CannotRun
from infra.local.places import Places
from infra.local.reload import AGAIN, reload_on_change
from millrace.app.layout import App
from millrace.app.secrets import LocalSecrets


class Recorded:
    """Functions that only remember."""

    def __init__(self, *, broken: bool = False) -> None:
        self.calls: list[str] = []
        self._broken = broken

    def stop(self) -> None:
        self.calls.append("stop")

    def start(self) -> None:
        self.calls.append("start")
        if self._broken:
            raise CannotRun("a name is not defined")


class Looks:
    """Stands for the time between two looks: each wait is the next step of the story."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = iter(steps)

    def wait(self, _seconds: float) -> bool:
        step = next(self._steps, None)
        if step is None:
            return True
        step()
        return False


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "functions/worker/handler.py": "old",
        "queues/jobs.millrace": "",
        "commands/jobs.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(reloading, "ROOT", tmp_path)
    return tmp_path


def edit(path: Path, text: str) -> None:
    """Write a file and date it a second later: file systems keep time in steps of some milliseconds."""
    later = path.stat().st_mtime_ns + 1_000_000_000
    path.write_text(text)
    os.utime(path, ns=(later, later))


def reload(root: Path, functions: Recorded, *steps: Callable[[], object]) -> list[str]:
    said: list[str] = []
    looks: threading.Event = Looks(*steps)  # type: ignore[assignment]
    reload_on_change(Places(App(root), root / ".local", "", ""), functions, said.append, looks)  # type: ignore[arg-type]
    return said


def test_a_changed_handler_restarts_the_functions_once(root: Path) -> None:
    functions = Recorded()
    handler = root / "functions" / "worker" / "handler.py"
    said = reload(root, functions, lambda: None, lambda: edit(handler, "newer"), lambda: None)
    assert functions.calls == ["stop", "start"]
    assert said[0].startswith("handler.py changed")


def test_nothing_changed_nothing_restarted(root: Path) -> None:
    functions = Recorded()
    assert reload(root, functions, lambda: None, lambda: None) == []
    assert functions.calls == []


def test_a_handler_that_does_not_start_is_told_and_the_next_change_tries_again(root: Path) -> None:
    functions = Recorded(broken=True)
    handler = root / "functions" / "worker" / "handler.py"
    said = reload(root, functions, lambda: edit(handler, "broken!"), lambda: edit(handler, "mended"))
    assert functions.calls == ["stop", "start"] * 2
    assert "a name is not defined" in said[1]


def test_the_apps_own_files_are_watched_too(root: Path) -> None:
    functions = Recorded()
    said = reload(root, functions, lambda: edit(root / "commands" / "jobs.py", "x = 1"))
    assert functions.calls == ["stop", "start"]
    assert said[0].startswith("jobs.py changed")


def test_an_app_that_does_not_compile_goes_on_as_it_was(root: Path) -> None:
    functions = Recorded()
    said = reload(
        root,
        functions,
        lambda: edit(root / "queues" / "jobs.millrace", "app A { queue"),
        lambda: edit(root / "commands" / "jobs.py", "import no_such_package"),
        lambda: None,
    )
    assert functions.calls == []
    assert "queues/jobs.millrace:1" in said[0]
    assert "no_such_package" in said[1]


def test_what_did_not_compile_is_tried_again_without_a_change(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that a command imports was missing, and is installed meanwhile."""
    functions = Recorded()
    handler = root / "commands" / "jobs.py"
    (root / "elsewhere").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(root / "elsewhere"))
    said = reload(
        root,
        functions,
        lambda: edit(handler, "import installed_later"),
        *[lambda: None] * AGAIN,
        lambda: (root / "elsewhere" / "installed_later.py").touch(),
        *[lambda: None] * AGAIN,
    )
    assert ["installed_later" in line for line in said] == [True, False, False]
    assert functions.calls == ["stop", "start"]


def test_a_new_webhook_gets_its_secret_at_once(root: Path) -> None:
    queue = "queue Q { message_type { payload: json }  drained_by: api }"
    hook = f'app A {{ {queue} webhook W {{ queue: Q  provider: github  secret_env: "ANY_NAME" }} }}'
    reload(root, Recorded(), lambda: edit(root / "queues" / "jobs.millrace", hook))
    assert list(LocalSecrets(root / ".local" / "secrets.json").read()) == ["ANY_NAME"]
