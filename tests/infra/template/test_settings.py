"""What guards the data is on, in the template that CloudFormation gets: with the parameters' defaults."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from millrace.model.uploads import STAGE
from tests.infra.template.translated import document, listed, resources, settled

TABLES = resources("AWS::DynamoDB::Table")
GROUPS = resources("AWS::Logs::LogGroup")
FUNCTIONS = resources("AWS::Lambda::Function")
RETAINED = ("QueueTable", "DeadLetterTable", "BodyBucket")


@pytest.mark.parametrize("name", TABLES)
def test_table_is_encrypted_recoverable_and_hard_to_delete(name: str) -> None:
    table = TABLES[name]
    assert table["SSESpecification"] == {"SSEEnabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert settled(table["DeletionProtectionEnabled"]) == "true"


@pytest.mark.parametrize("name", RETAINED)
def test_what_holds_messages_outlives_its_stack(name: str) -> None:
    written = document()["Resources"][name]
    assert (written["DeletionPolicy"], written["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_bucket_is_encrypted_private_and_reached_by_tls_only() -> None:
    (bucket,) = resources("AWS::S3::Bucket").values()
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    blocked = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    assert bucket["PublicAccessBlockConfiguration"] == dict.fromkeys(blocked, True)
    assert bucket["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    kept, uploads = bucket["LifecycleConfiguration"]["Rules"]
    assert (uploads["Prefix"], uploads["ExpirationInDays"], "Prefix" in kept) == (f"{STAGE}/", 1, False)
    (policy,) = resources("AWS::S3::BucketPolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_queue_of_failed_wake_ups_is_encrypted() -> None:
    (queue,) = resources("AWS::SQS::Queue").values()
    assert queue["SqsManagedSseEnabled"] is True


def test_logs_are_kept_for_a_time_and_every_function_writes_to_its_own() -> None:
    assert {settled(group["RetentionInDays"]) for group in GROUPS.values()} == {30}
    used = [function["LoggingConfig"]["LogGroup"]["Ref"] for function in FUNCTIONS.values()]
    assert sorted([*used, "ApiLog"]) == sorted(GROUPS)


def test_api_is_throttled_and_logged_without_what_senders_sent() -> None:
    (stage,) = resources("AWS::ApiGatewayV2::Stage").values()
    limits = {name: settled(value) for name, value in stage["DefaultRouteSettings"].items()}
    assert limits == {"ThrottlingRateLimit": 2000, "ThrottlingBurstLimit": 4000}
    logged = set(re.findall(r"\$context\.([\w.]+)", stage["AccessLogSettings"]["Format"]))
    answers = {"requestId", "routeKey", "status", "responseLatency", "integrationErrorMessage"}
    assert logged == answers | {"identity.sourceIp"}


def test_worker_is_traced_where_that_is_asked_for() -> None:
    assert FUNCTIONS["WorkerFunction"]["TracingConfig"]["Mode"] == {"Fn::If": ["IsTraced", "Active", "PassThrough"]}
    assert document()["Conditions"]["IsTraced"] == {"Fn::Equals": [{"Ref": "Tracing"}, "on"]}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_variable_holds_a_secret(name: str) -> None:
    """One that is called so holds a place in Secrets Manager; nothing else is long enough to be one."""
    for variable, value in FUNCTIONS[name]["Environment"]["Variables"].items():
        written = settled(value)
        if "SECRET" in variable:
            assert written["Fn::Sub"].startswith("secretsmanager:${"), variable
        elif isinstance(written, str):
            assert len(written) < 40, variable


def test_no_update_of_the_stack_can_change_a_secret() -> None:
    """CloudFormation writes a value from SecretString or GenerateSecretString only, and a new secret for a new Name."""
    secrets = resources("AWS::SecretsManager::Secret")
    assert all(set(written) == {"Name", "Description"} for written in secrets.values())
    assert {name: written["Name"]["Fn::Sub"] for name, written in secrets.items()} == {
        "WebhookSecrets": "${AWS::StackName}/webhooks",
        "TargetSecrets": "${AWS::StackName}/targets",
    }


@pytest.mark.parametrize("kind", ["AWS::Lambda::Permission", "AWS::SQS::QueuePolicy"])
def test_who_may_call_is_one_source_of_this_stack(kind: str) -> None:
    for name, found in resources(kind).items():
        statements: list[Any] = listed(found.get("PolicyDocument", {}).get("Statement", found))
        for statement in statements:
            source = statement.get("SourceArn") or statement["Condition"]["ArnEquals"]["aws:SourceArn"]
            assert re.search(r"\$\{Api\}|SweepSchedule", json.dumps(source)), name
