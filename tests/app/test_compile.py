"""A definition that names a command which nobody registers does not compile, and nothing half-written stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from millrace.app.compile import NotCompiled, compile_app, write_definitions
from tests.app.apps import HANDLER, QUEUE, make


def test_an_app_compiles_to_what_the_functions_load(tmp_path: Path) -> None:
    path = write_definitions(make(tmp_path), os.environ)
    assert path == tmp_path / ".millrace" / "definitions.json"
    assert list(json.loads(path.read_text())["queues"]) == ["Orders"]
    assert [entry.name for entry in path.parent.iterdir()] == ["definitions.json"]


def test_a_command_that_nobody_registers_is_an_error_at_its_place(tmp_path: Path) -> None:
    app = make(tmp_path, {"commands/orders.py": HANDLER.replace("Order.Ship", "Order.Shipp")})
    (error,) = compile_app(app, os.environ).errors
    assert str(error).startswith("queues/orders.millrace:5:")
    assert "no module registers the command `Order.Ship`" in str(error)
    assert "did you mean `Order.Shipp`?" in str(error)


def test_a_webhooks_own_command_is_looked_for_too(tmp_path: Path) -> None:
    hook = "app A { webhook Now { message_type { payload: json }  verify: none  map_to: command Quick.Run { a: 1 } } }"
    app = make(tmp_path, {"queues/hook.millrace": hook})
    assert "no module registers the command `Quick.Run`" in str(compile_app(app, os.environ).errors[0])


def test_what_does_not_compile_leaves_the_compiled_file_as_it_was(tmp_path: Path) -> None:
    app = make(tmp_path)
    before = write_definitions(app, os.environ).read_bytes()
    make(tmp_path, {"queues/orders.millrace": QUEUE.replace("fed_by", "fedby")})
    with pytest.raises(NotCompiled, match=r"queues/orders.millrace:4"):
        write_definitions(app, os.environ)
    assert app.definitions.read_bytes() == before
