"""The template as CloudFormation gets it, and what its roles allow, by logical ids."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

from infra.local.dynamodb import ROOT
from infra.local.ministack import find_ministack
from tests.infra.template.cloud import STACK, Need

Document = dict[str, Any]


@cache
def document() -> Document:
    """Translated by SAM itself, which MiniStack's environment brings."""
    python = find_ministack().with_name("python")
    ran = subprocess.run([python, ROOT / "infra" / "translation.py"], capture_output=True, check=True)
    found: Document = json.loads(ran.stdout)
    return found


def resources(kind: str) -> dict[str, Document]:
    """Properties of every resource of a type, by logical id."""
    return {name: found["Properties"] for name, found in document()["Resources"].items() if found["Type"] == kind}


def settled(value: Any) -> Any:
    """A parameter's default where a value is one; the first branch of a condition; else the value."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, argument),) = value.items()
        if kind == "Ref" and argument in document()["Parameters"]:
            return document()["Parameters"][argument]["Default"]
        if kind == "Fn::If":
            return settled(argument[1])
    return value


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements(role: str) -> Iterator[Document]:
    """A role's statements, those under a condition included."""
    properties = document()["Resources"][role]["Properties"]
    assert "ManagedPolicyArns" not in properties
    for policy in properties["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            yield settled(statement)


def allowed(role: str) -> set[Need]:
    """Every pair of action and resource that a role allows; conditions on the leading key are looked at apart."""
    return {
        Need(action, resource_name(resource))
        for statement in statements(role)
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def resource_name(written: Any) -> str:
    """`QueueTable` for its Arn, `BodyBucket/*` for what is in it, `function:NAME` for one named by the stack."""
    if written == "*":
        return "*"
    ((kind, argument),) = written.items()
    if kind == "Ref":
        return str(argument)
    if kind == "Fn::GetAtt":
        return argument[0] if argument[1] == "Arn" else ".".join(argument)
    assert kind == "Fn::Sub", written
    text = str(argument).replace("${AWS::StackName}", STACK)
    return text[text.index("function:") :] if "function:" in text else text.replace("${", "").replace(".Arn}", "")


def wired(function: str) -> set[Need]:
    """What Lambda does under a function's role: write its logs, read its stream, keep what failed, trace."""
    found = document()["Resources"][function]["Properties"]
    log = found["LoggingConfig"]["LogGroup"]["Ref"]
    needs = {Need("logs:CreateLogStream", log), Need("logs:PutLogEvents", log)}
    for mapping in _of("AWS::Lambda::EventSourceMapping", function):
        stream = resource_name(mapping["EventSourceArn"])
        needs |= {Need(f"dynamodb:{action}", stream) for action in ("DescribeStream", "GetRecords", "GetShardIterator")}
        needs |= {Need("dynamodb:ListStreams", "*"), _kept(mapping)}
    needs |= {_kept(config) for config in _of("AWS::Lambda::EventInvokeConfig", function)}
    if settled(found.get("TracingConfig", {}).get("Mode")) == "Active":
        needs |= {Need("xray:PutTraceSegments", "*"), Need("xray:PutTelemetryRecords", "*")}
    return needs


def _of(kind: str, function: str) -> list[Document]:
    return [found for found in resources(kind).values() if found["FunctionName"] == {"Ref": function}]


def _kept(config: Document) -> Need:
    return Need("sqs:SendMessage", resource_name(config["DestinationConfig"]["OnFailure"]["Destination"]))
