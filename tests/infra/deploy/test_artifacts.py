"""An artifact is complete by itself: on AWS nothing lies beside it, here a test machine's packages could hide a gap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.build import artifact
from infra.local.dynamodb import ROOT
from infra.local.template import Template
from millrace.app.compile import write_definitions
from millrace.app.layout import App

pytestmark = pytest.mark.deploy
FUNCTIONS = Template.read().functions()
SDK = "import boto3; [boto3.client(n, region_name='eu-west-1') for n in ('dynamodb', 's3', 'lambda')]"
SECRETS = "from millrace.aws.secrets import powertools_fetch; list(map(powertools_fetch, ('secretsmanager', 'ssm')))"
CEL = "from millrace.definitions import cel_engine; cel_engine.engine()"
#: Signs with a private key as an http target does, and verifies it with the public half as a webhook does.
KEY_PAIR = """
from base64 import b64encode
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from millrace.signatures import Secret, WebhookRequest, preset, verify
from millrace.signatures.signing import sign
seed = bytes(range(32))
public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
scheme = preset("standard_webhooks")
headers = sign(scheme, [Secret("s", "whsk_" + b64encode(seed).decode())], b"{}", 1_000, delivery_id="m-1")
request = WebhookRequest.build("POST", "https://example.com/", headers, b"{}")
proof = verify(scheme, request, [Secret("p", "whpk_" + b64encode(public).decode())], 1_000)
assert (proof.delivery_id, headers["webhook-signature"][:4]) == ("m-1", "v1a,")
"""
#: What a function imports only when it is needed.
LATER = {
    "IngressFunction": [SDK, SECRETS, CEL, KEY_PAIR, "import commands.incidents"],
    "WorkerFunction": [
        SDK,
        SECRETS,
        CEL,
        KEY_PAIR,
        "import commands.incidents",
    ],
    "ConsumerFunction": [SDK, CEL],
    "AdminFunction": [SDK, CEL],
    "AuthoriserFunction": [SDK],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_artifact_needs_nothing_beside_itself(name: str, tmp_path: Path) -> None:
    app = App(ROOT / "infra" / "example")
    write_definitions(app, os.environ)
    artifact.build(artifact.ARTIFACTS[name], app, "", artifact.this_machine(), tmp_path)
    module = FUNCTIONS[name].handler.rpartition(".")[0]
    lines = [f"import sys; sys.path.insert(0, {str(tmp_path)!r})", f"import {module}", *LATER[name]]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "\n".join(lines)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
