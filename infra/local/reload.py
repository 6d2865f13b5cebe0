"""`--reload`: the functions are restarted when a file of the app or of the bundle changes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from rich.markup import escape

from infra.local.dynamodb import ROOT
from infra.local.functions import CannotRun, Functions
from infra.local.places import Places
from millrace.app.compile import NotCompiled, write_definitions
from millrace.app.layout import App
from millrace.app.registered import CommandsBroken

#: What a reload watches of the bundle, besides the app's own files.
WATCHED = ("functions/**/*.py", "functions/**/console/*", "shared/millrace/**/*.py", "template.yaml")
#: Between two looks.
LOOK_S = 0.5
#: Looks between two tries of an app that did not compile.
AGAIN = 4


def watched(app: App) -> dict[Path, int]:
    """When each file was changed that the functions are made of: the bundle's, and the app's code and definitions."""
    found = [path for pattern in WATCHED for path in ROOT.glob(pattern)]
    found += [path for part in app.code() for path in ([part] if part.is_file() else part.rglob("*.py"))]
    found += [*app.queues.rglob("*.millrace"), app.template]
    return {path: path.stat().st_mtime_ns for path in found if path.is_file()}


def reload_on_change(
    places: Places, functions: Functions, say: Callable[[str], None], stopping: threading.Event
) -> None:
    """Restart the functions when a file changes; the app is compiled first, and goes on as it was where that fails.

    What failed is tried again every two seconds: a package that was missing may be there by then.
    """
    seen = watched(places.app)
    changed: set[Path] = set()  # and not running yet
    problem, looks = "", 0
    while not stopping.wait(LOOK_S):
        now = watched(places.app)
        fresh = {path for path in {*seen, *now} if seen.get(path) != now.get(path)}
        seen, changed, looks = now, changed | fresh, looks + 1
        if not fresh and (not changed or looks % AGAIN):
            continue
        try:
            write_definitions(places.app, os.environ)
        except (NotCompiled, CommandsBroken) as failed:
            if fresh or str(failed) != problem:
                say(f"[red]{escape(str(failed))}[/red]")
            problem = str(failed)
            continue
        places.secrets()  # a new webhook gets one at once
        say(f"{', '.join(sorted(path.name for path in changed)[:3])} changed: restarting the functions ...")
        changed = set()
        functions.stop()
        try:
            functions.start()
            say("The functions are up again.")
        except CannotRun as failed:
            say(f"[red]{failed}[/red]")
