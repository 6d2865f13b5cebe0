"""Which secrets an app needs, and where they are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.app.compile import write_definitions
from millrace.app.secrets import LocalSecrets, secret_names, stack_of
from tests.app.apps import make


def test_the_names_are_those_of_the_definitions_whatever_they_end_in(tmp_path: Path) -> None:
    assert secret_names(write_definitions(make(tmp_path), os.environ)) == {
        "webhooks": {"SHOP_SIGNING_KEY"},
        "targets": set(),
    }


def test_local_secrets_are_readable_by_their_owner_only_and_replaced_whole(tmp_path: Path) -> None:
    kept = LocalSecrets(tmp_path / "home" / "secrets.json")
    assert kept.read() == {}
    kept.write({"A": "1"})
    kept.write({**kept.read(), "B": "2"})
    assert kept.read() == {"A": "1", "B": "2"}
    assert kept.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in kept.path.parent.iterdir()] == ["secrets.json"]


def test_a_stage_is_the_stack_that_samconfig_names(tmp_path: Path) -> None:
    app = make(tmp_path, {"samconfig.toml": 'version = 0.1\n[prod.deploy.parameters]\nstack_name = "shop"\n'})
    assert stack_of(app, "prod") == "shop"
    with pytest.raises(LookupError, match="It has: prod"):
        stack_of(app, "dev")
