"""`millrace secrets`: set and listed on this machine, never shown, never on the command line."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner, Result
from moto import mock_aws

from millrace.app.layout import App
from millrace.app.secrets import LocalSecrets
from millrace.aws.stored_secrets import StoredSecrets
from millrace.cli.main import main
from millrace.signatures import Secret
from tests.app.apps import make


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.chdir(tmp_path)
    return make(tmp_path)


def millrace(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["secrets", *arguments], input=given)


def held(app: App) -> dict[str, str]:
    return LocalSecrets(app.home / "secrets.json").read()


def test_a_secret_is_set_from_standard_input_and_listed_without_its_value(app: App) -> None:
    missing = millrace("list")
    assert (missing.exit_code, "missing" in missing.output) == (1, True)
    assert millrace("set", "SHOP_SIGNING_KEY", given="hunter2\n").exit_code == 0
    assert held(app) == {"SHOP_SIGNING_KEY": "hunter2"}
    listed = millrace("list")
    assert (listed.exit_code, "hunter2" in listed.output) == (0, False)


def test_a_value_on_the_command_line_is_refused(app: App) -> None:
    """There it would stand in the shell's history and in the list of processes."""
    refused = millrace("set", "SHOP_SIGNING_KEY", "hunter2")
    assert (refused.exit_code, held(app)) == (2, {})


def test_one_is_made_up_and_printed_once(app: App) -> None:
    made = millrace("set", "SHOP_SIGNING_KEY", "--generate")
    assert made.stdout.strip() == held(app)["SHOP_SIGNING_KEY"]
    assert len(made.stdout.strip()) == 48


def test_a_name_that_no_webhook_has_is_noted_and_an_empty_value_refused(app: App) -> None:
    assert "nothing in this app" in millrace("set", "OTHER", given="x").output
    assert millrace("set", "SHOP_SIGNING_KEY", given="\n").exit_code == 1
    assert held(app) == {"OTHER": "x"}


def test_one_is_forgotten(app: App) -> None:
    millrace("set", "SHOP_SIGNING_KEY", given="x")
    assert millrace("unset", "SHOP_SIGNING_KEY").exit_code == 0
    assert held(app) == {}
    assert millrace("unset", "SHOP_SIGNING_KEY").exit_code == 1


def test_a_stage_that_samconfig_does_not_name_is_said(app: App) -> None:
    assert "names no stack for 'prod'" in millrace("list", "--env", "prod").output


def test_what_aws_refuses_is_a_sentence(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    refused = millrace("list", "--stack", "shop")
    assert refused.exit_code == 1
    assert "Set AWS_PROFILE or AWS_REGION" in refused.output
    assert "Traceback" not in refused.output


def test_what_targets_sign_with_is_kept_apart_on_aws(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that verifies cannot read what the one that calls signs with, nor the other way round."""
    queues = app.queues / "partner.millrace"
    queues.write_text(
        """app Partner { queue Calls { message_type { n: int }  fed_by: api
             map_to: http "https://partner.example/in" (secret_env: "PARTNER_KEY") { n: n } } }"""
    )
    for name, value in (("AWS_ACCESS_KEY_ID", "t"), ("AWS_SECRET_ACCESS_KEY", "t"), ("AWS_REGION", "eu-west-1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        client = boto3.client("secretsmanager", region_name="eu-west-1")
        for name in ("shop/webhooks", "shop/targets"):
            client.create_secret(Name=name, SecretString="{}")
        made = millrace("set", "PARTNER_KEY", "--generate", "--stack", "shop")
        assert millrace("set", "SHOP_SIGNING_KEY", "--stack", "shop", given="x").exit_code == 0
        assert {name: StoredSecrets(f"shop/{name}", client).read() for name in ("webhooks", "targets")} == {
            "webhooks": {"SHOP_SIGNING_KEY": "x"},
            "targets": {"PARTNER_KEY": made.stdout.strip()},
        }
        assert Secret("s", made.stdout.strip()).shared_key()
        assert millrace("list", "--stack", "shop").exit_code == 0
        assert millrace("unset", "PARTNER_KEY", "--stack", "shop").exit_code == 0
        assert millrace("list", "--stack", "shop").exit_code == 1
