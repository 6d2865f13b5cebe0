"""The `lambda` target: what a function is given, and what its answers mean."""

from __future__ import annotations

import json
from base64 import b64decode
from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError

from millrace.engine.status import status
from millrace.worker.targets.lambda_function import LambdaDelivery
from tests.conftest import Bench
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig, put_n


class Functions:
    """Lambda's client, as far as a delivery uses it."""

    def __init__(self, payload: bytes = b"{}", error: str = "", refuse: str = "") -> None:
        self.answer: dict[str, Any] = {"Payload": BytesIO(payload), **({"FunctionError": error} if error else {})}
        self.refuse = refuse
        self.calls: list[dict[str, Any]] = []

    def invoke(self, **given: Any) -> dict[str, Any]:
        self.calls.append(given)
        if self.refuse:
            raise ClientError({"Error": {"Code": self.refuse}}, "Invoke")
        return self.answer


def lambda_rig(bench: Bench, functions: Functions) -> TargetRig:
    queues = f'queue Jobs {{ {TYPE}  map_to: lambda "resize" {{ n: n }} }}'
    return TargetRig(bench, queues, **{"lambda": LambdaDelivery(functions)})


def test_a_function_is_invoked_with_the_input_and_the_fencing_token(bench: Bench) -> None:

    functions = Functions(b'{"ok":true}')
    rig = lambda_rig(bench, functions)
    message_id = put_n(rig.queue(), 3, correlation_id="corr-1")
    rig.drain()
    (call,) = functions.calls
    assert (call["FunctionName"], json.loads(call["Payload"])) == ("resize", {"n": 3})
    custom = json.loads(b64decode(call["ClientContext"]))["custom"]
    assert custom == {
        "message_id": message_id,
        "queue": "Jobs",
        "claim_version": 1,
        "attempt": 1,
        "correlation_id": "corr-1",
    }
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert result.snapshot == b'{"ok":true}'


def test_an_error_of_the_function_is_a_failed_run(bench: Bench) -> None:
    functions = Functions(b'{"errorType":"KeyError","errorMessage":"x"}', error="Unhandled")
    rig = lambda_rig(bench, functions)
    message_id = put_n(rig.queue())
    rig.drain()
    assert rig.entry(message_id).attempts == 1
    assert status(rig.queue(), message_id).history[0].error == "KeyError: x"


def test_a_throttled_function_charges_nothing(bench: Bench) -> None:
    rig = lambda_rig(bench, Functions(refuse="TooManyRequestsException"))
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due > bench.clock()) == (0, True)


def test_a_missing_function_is_a_failed_run(bench: Bench) -> None:
    rig = lambda_rig(bench, Functions(refuse="ResourceNotFoundException"))
    message_id = put_n(rig.queue())
    rig.drain()
    assert rig.entry(message_id).attempts == 1
