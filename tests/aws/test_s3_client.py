"""The bucket's client gives up while its function still has time to answer."""

from __future__ import annotations

import re
from typing import Any

from infra.local.dynamodb import ROOT
from millrace.aws.s3_client import ATTEMPTS, CONNECT_S, READ_S, s3_client
from millrace.aws.uploads import TRANSFER_S
from millrace.stores.dynamodb.retrying_client import DEADLINE_S

#: botocore's standard mode waits this long at most before its second try.
PAUSE_S = 2.0


def test_what_gets_no_answer_fails_within_the_functions_time() -> None:
    found = re.search(
        r"^Globals:\n  Function:\n(?:    .*\n)*?    Timeout: (\d+)$", (ROOT / "template.yaml").read_text(), re.M
    )
    assert found
    timeout = int(found[1])
    body = ATTEMPTS * (CONNECT_S + READ_S) + PAUSE_S
    assert body + 2 * DEADLINE_S < timeout, "a body written, and both writes of an enqueue"
    assert timeout - DEADLINE_S > CONNECT_S + TRANSFER_S, "a copy, and the writes after it at their usual pace"


def test_its_settings_are_those() -> None:
    client: Any = s3_client(region="eu-west-1")
    config = client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (CONNECT_S, READ_S)
    assert config.retries["total_max_attempts"] == ATTEMPTS
