"""`millrace send`: samples signed as their providers sign them."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from millrace.cli.connection import Exit
from millrace.cli.main import main
from millrace.model.clock import system_clock
from millrace.signatures import WebhookRequest, verify
from millrace.signatures.samples import load_sample, sample_names
from tests.signatures.cases import secret_of, signer_of

SAMPLES = Path("events/providers")


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize("sample", sample_names(SAMPLES))
def test_each_sample_is_signed_as_its_provider_does(sample: str) -> None:
    url = "https://hooks.example/hook/X"
    scheme = load_sample(SAMPLES, sample).scheme
    secret = signer_of(scheme).value
    done = CliRunner().invoke(main, ["send", sample, url, "--secret", secret, "--delivery-id", "d1", "--dry-run"])
    if scheme.published:
        assert (done.exit_code, "have it send a test delivery" in done.output) == (1, True)
        return
    assert done.exit_code == 0, done.output
    shown = json.loads(done.output)
    request = WebhookRequest.build("POST", shown["url"], shown["headers"], shown["body"].encode())
    verify(scheme, request, [secret_of(scheme)], system_clock())


def test_send_without_arguments_lists_the_samples() -> None:
    assert CliRunner().invoke(main, ["send"]).output.split() == sample_names(SAMPLES)
    assert CliRunner().invoke(main, ["send", "nobody"]).exit_code == 2
    assert CliRunner().invoke(main, ["send", "nobody", "http://127.0.0.1:9/", "--secret", "x"]).exit_code == 2
    assert CliRunner().invoke(main, ["send", "github", "http://127.0.0.1:9/", "--secret", "x"]).exit_code == 6


@pytest.mark.parametrize(
    ("flags", "shown"), [(["--follow"], ["m1"]), (["--no-follow"], []), ([], [])], ids=["asked", "not", "no-terminal"]
)
def test_what_was_accepted_is_followed(flags: list[str], shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a webhook's name, on the address of the environment; the end of the message is the exit code."""
    posted: list[str] = []
    followed: list[str] = []

    def post(url: str, **_: object) -> httpx.Response:
        posted.append(url)
        return httpx.Response(202, json={"message_id": "m1"})

    def follow(_client: object, message_id: str) -> tuple[dict[str, str], Exit]:
        followed.append(message_id)
        return {}, Exit.FAILED

    monkeypatch.setattr(httpx, "post", post)
    monkeypatch.setattr("millrace.cli.send.follow_by_id", follow)
    environment = {"MILLRACE_URL": "http://127.0.0.1:9", "MILLRACE_TOKEN": "mrt_x"}
    words = ["send", "github", "Push", "--secret", SECRET, *flags]
    done = CliRunner().invoke(main, words, env=environment)
    assert done.exit_code == (Exit.FAILED if shown else Exit.OK), done.output
    assert (posted, followed) == (["http://127.0.0.1:9/hook/Push"], shown)
