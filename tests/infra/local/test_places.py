"""What a function of the local stack gets as its environment."""

from __future__ import annotations

from pathlib import Path

from infra.local.places import Places
from infra.local.template import Template
from millrace.cli.local import RunningStack
from tests.app.apps import make

OWN = """
Resources:
  WorkerFunction: { Properties: { Environment: { Variables: { SHOP: corner, QUEUE_TABLE: another } } } }
"""


def test_the_apps_variables_reach_its_function_and_replace_nothing_local(tmp_path: Path) -> None:
    template = Template.read()
    places = Places(make(tmp_path, {"template.yaml": OWN}), tmp_path / ".local", "http://d", "http://s", {"BULK": "1"})
    worker = places.environment(template.functions()["WorkerFunction"], template, in_process=True)
    admin = places.environment(template.functions()["AdminFunction"], template, in_process=True)
    assert (worker["SHOP"], worker["BULK"], "SHOP" in admin) == ("corner", "1", False)
    assert worker["WEBHOOK_SECRETS"] == f"file:{tmp_path / '.local' / 'secrets.json'}"
    assert worker["QUEUE_TABLE"] == admin["QUEUE_TABLE"] == "millrace-queue"


def test_the_default_tenant_of_an_app_reaches_every_function_and_the_command_line(tmp_path: Path) -> None:
    template = Template.read()
    app = make(tmp_path, {"template.yaml": "Parameters: { DefaultTenant: { Default: mill } }"})
    places = Places(app, tmp_path / ".local", "http://d", "http://s")
    for name, function in template.functions().items():
        assert places.environment(function, template, in_process=True)["DEFAULT_TENANT"] == "mill", name
    places.home.mkdir()
    places.publish("http://api")
    table = RunningStack(places.home).table
    assert table is not None
    assert table.default_tenant == "mill"
    bare = Places(make(tmp_path / "bare", {}), tmp_path / ".local", "http://d", "http://s", {"DEFAULT_TENANT": "ours"})
    assert bare.default_tenant == "ours"
