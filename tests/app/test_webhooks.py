"""What to send one of an app's webhooks: its provider's sample, in its own scheme, with its own secret."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.app.compile import NotCompiled, compile_app
from millrace.app.webhooks import find_webhook
from tests.app.apps import QUEUE, make

OWN = """app Shop {
  queue Visits { message_type { payload: json }  drained_by: api }
  webhook Door { queue: Visits  verify_hmac { header: "X-Door"  secret_env: "DOOR_KEY" } }
  webhook Open { queue: Visits  verify: none }
}
"""


def test_a_webhook_is_found_by_its_name_or_by_its_providers(tmp_path: Path) -> None:
    app = make(tmp_path, {"queues/own.millrace": OWN})
    assert compile_app(app, os.environ).errors == []
    for name in ("Sales", "github"):
        found = find_webhook(app, name)
        assert found is not None
        assert (found.name, found.secret, found.sample.name) == ("Sales", "SHOP_SIGNING_KEY", "github")


def test_a_scheme_of_ones_own_signs_a_sample_of_nobody(tmp_path: Path) -> None:
    found = find_webhook(make(tmp_path, {"queues/own.millrace": OWN}), "Door")
    assert found is not None
    assert (found.secret, found.sample.name) == ("DOOR_KEY", "generic")
    assert found.sample.scheme.names[0].signature == "x-door"


@pytest.mark.parametrize("name", ["Nobody", "stripe", "Open"])
def test_none_fits(tmp_path: Path, name: str) -> None:
    assert find_webhook(make(tmp_path, {"queues/own.millrace": OWN}), name) is None


def test_two_of_one_provider_are_not_guessed_between(tmp_path: Path) -> None:
    second = 'app Shop { webhook Other { queue: Orders  provider: github  secret_env: "B" } }'
    app = make(tmp_path, {"queues/more.millrace": second})
    assert find_webhook(app, "github") is None
    found = find_webhook(app, "Other")
    assert found is not None
    assert found.secret == "B"


def test_definitions_that_do_not_compile_are_said(tmp_path: Path) -> None:
    with pytest.raises(NotCompiled):
        find_webhook(make(tmp_path, {"queues/orders.millrace": QUEUE[:-3]}), "Sales")
