"""The local stack makes the keys of encrypted queues, once, and keeps them when it is killed."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from infra.local.keys import key_names, make_keys
from infra.local.ministack import MiniStack
from infra.local.places import Places, home_credentials
from millrace.app.layout import App
from millrace.aws.kms import KmsKeys
from millrace.definitions.language.compiler import compile_files

TEXT = """
app Shop {
  queue Orders { message_type { payload: json }  fed_by: api  drained_by: api  encrypt: "alias/orders-{tenant}" }
  queue Common { message_type { payload: json }  fed_by: api  drained_by: api  encrypt: "alias/common" }
  queue Far {
    message_type { payload: json }
    fed_by: api
    drained_by: api
    encrypt: "arn:aws:kms:eu-west-1:111122223333:alias/far"
  }
  queue Plain { message_type { payload: json }  fed_by: api  drained_by: api }
  tenant acme { }
}
"""
NAMES = ["alias/orders-default", "alias/orders-acme", "alias/common"]
FAR = "arn:aws:kms:eu-west-1:111122223333:alias/far"
OURS = {"tenant": "acme", "queue": "Orders"}


def test_each_known_tenant_has_its_key() -> None:
    compiled = compile_files([("q.millrace", TEXT.encode())]).definitions
    assert compiled is not None
    assert set(key_names(compiled, "default")) == {*NAMES, FAR}


def test_keys_are_made_once_and_outlive_a_killed_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(tmp_path)
    app.definitions.parent.mkdir(parents=True, exist_ok=True)
    app.definitions.write_text(compile_files([("q.millrace", TEXT.encode())]).text, "utf-8")
    credentials = home_credentials(tmp_path)
    for name, value in credentials.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # another test's, with other credentials
    secrets = []
    wrapped = b""
    key_id = ""
    for _ in range(2):
        stack = MiniStack(services=("s3", "kms"), keys=tmp_path / "kms", access_key=credentials["AWS_ACCESS_KEY_ID"])
        with stack:
            assert make_keys(Places(app, tmp_path, "", stack.url, credentials=credentials)) == [FAR]
            keys = KmsKeys(region="eu-west-1", endpoint_url=stack.url)
            if not wrapped:
                made = keys.generate("alias/orders-acme", OURS)
                key_id, wrapped = made.key_id, made.wrapped
                secrets.append(made.secret)
                stack.kill()
            else:
                secrets.append(keys.unwrap(key_id, wrapped, OURS))
    assert secrets[0] == secrets[1]
