"""Somebody's own app, from the wheel to a deployment and to the next version, with nothing of the shipped example."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.dynamodb import CREDENTIALS, REGION
from infra.local.ministack import MiniStack
from millrace.app.tools import find_uv
from millrace.model.clock import system_clock
from millrace.signatures import Secret
from millrace.signatures.presets import scheme_from
from millrace.signatures.signing import deliver
from tests.infra.deploy.cloud import ARTIFACTS, PARAMETERS, PYTHON, Deployment, until
from tests.tutorial.runner import Reader
from tests.tutorial.strangers import ROOT, build_wheel, environment

pytestmark = pytest.mark.app

QUEUES = """app Shop {
  queue Sales {
    message_type { payload: json  headers: map<string, string>  source_ip: string  received_at: time }
    map_to: command Sale.Label { number: payload.number  address: payload.address }
  }
  webhook Till { queue: Sales  verify_hmac { header: "X-Till-Signature"  secret_env: "THE_TILLS_KEY" } }
}
"""
HANDLER = """import boto3
from slugify import slugify

from millrace import command


@command("Sale.Label")
def label(given):
    boto3.client("ses", region_name="eu-west-1")  # a service that Millrace itself never calls
    return {"label": slugify(f"{given['number']} {given['address']}")}
"""
KEY = "what the till signs with"


@pytest.fixture
def account(tmp_path: Path) -> Iterator[MiniStack]:
    with MiniStack(log=tmp_path / "ministack.log") as stack:
        yield stack


@pytest.fixture
def shop(tmp_path: Path, account: MiniStack) -> Reader:
    """A terminal in a new app, in an environment of its own, with an account to deploy to."""
    cloud = {"AWS_ENDPOINT_URL": account.url, **CREDENTIALS}
    target = {"MILLRACE_BUILD_PYTHON": PYTHON, "MILLRACE_BUILD_PLATFORM": f"{platform.machine()}-manylinux_2_28"}
    reader = Reader(tmp_path, {**environment(tmp_path), **cloud, **target})
    wheel = build_wheel(ROOT, tmp_path / "first")
    reader.run(f"{sys.executable} -m venv venv && . venv/bin/activate && {find_uv()} pip install -q {wheel}")
    reader.run("millrace new shop && cd shop && rm queues/* commands/* tests/*")
    (reader.folder / "queues" / "sales.millrace").write_text(QUEUES)
    (reader.folder / "commands" / "sales.py").write_text(HANDLER)
    reader.run("printf 'boto3\\npython-slugify>=8\\n' >> requirements.txt")
    reader.run(f"{find_uv()} pip install -q 'python-slugify>=8'")
    return reader


def test_an_app_is_deployed_and_upgraded_without_being_touched(
    shop: Reader, account: MiniStack, tmp_path: Path
) -> None:
    stack = Deployment("shop-dev", account.url, shop.folder / ".millrace" / "template.json")
    stack.client("s3").create_bucket(Bucket=ARTIFACTS, CreateBucketConfiguration={"LocationConstraint": REGION})
    deploy = f"millrace deploy --s3-bucket {ARTIFACTS} --no-resolve-s3 --no-progressbar --region {REGION}"
    deploy += f" --parameter-overrides '{PARAMETERS}'"
    shop.run(deploy)
    shop.run(f"printf '{KEY}' | millrace secrets set THE_TILLS_KEY --env dev")
    token = stack.token()
    assert sold(stack, 7, token) == {"label": "7-rue-de-la-paix"}
    before = fingerprints(shop.folder)
    second = build_wheel(newer_version(tmp_path / "newer"), tmp_path / "second")
    shop.run(f"{find_uv()} pip install -q {second}")
    shop.run("sed -i 's/^millrace==.*/millrace==99.0.0/' requirements.txt && millrace --version", ["99.0.0"])
    shop.run(deploy)
    assert sold(stack, 8, token) == {"label": "8-rue-de-la-paix"}
    after = fingerprints(shop.folder)
    assert {name for name in before if after.get(name) != before[name]} == {"requirements.txt"}


def sold(stack: Deployment, number: int, token: dict[str, str]) -> object:
    """A sale at the till, and what its handler made of it."""
    scheme = scheme_from({"header": "X-Till-Signature"})
    body = json.dumps({"number": number, "address": "Rue de la Paix"}).encode()
    signed = deliver(scheme, Secret("till", KEY), stack.endpoint, body, system_clock())
    headers = {name: signed.headers.one(name) for name in signed.headers}
    answer = until(lambda: accepted(stack, headers, body), "the sale accepted")

    def look() -> object:
        status, found = stack.request("GET", f"/v1/queues/Sales/messages/{answer['message_id']}", token)
        return found if status == 200 and found["status"] in ("done", "dead") and found["finished_at"] else None

    return until(look, "the sale worked off")["result"]


def accepted(stack: Deployment, headers: dict[str, str], body: bytes) -> object:
    """The answer, once the ingress knows the secret: it asks again within a minute."""
    status, answer = stack.request("POST", "/hook/Till", headers, body)
    return answer if status in (200, 202) else None


def newer_version(folder: Path) -> Path:
    """This repository as its next release."""
    folder.mkdir()
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if name.startswith("tests/") or not (ROOT / name).is_file():
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    project = folder / "pyproject.toml"
    project.write_text(project.read_text("utf-8").replace('version = "0.1.0"', 'version = "99.0.0"'), "utf-8")
    return folder


def fingerprints(folder: Path) -> dict[str, str]:
    """Every file that the app's owner keeps."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not {".millrace", ".local", "__pycache__"} & set(path.parts)
    }
