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
#: What a function imports only when it is needed.
LATER = {
    "IngressFunction": [SDK, SECRETS, CEL, "import commands.incidents"],
    "WorkerFunction": [
        SDK,
        SECRETS,
        CEL,
        "import commands.incidents",
        "from aws_lambda_powertools import Tracer; Tracer()",
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
