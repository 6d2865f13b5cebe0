"""What guards the data is on, in the template that CloudFormation gets: with the parameters' defaults."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from millrace.http.edge import EDGE_HEADER
from millrace.model.uploads import STAGE
from millrace.pull.waiting_places import MAX_WAITING, MAX_WAITING_PER_TOKEN
from tests.infra.template.translated import document, listed, resources, settled

TABLES = resources("AWS::DynamoDB::Table")
GROUPS = resources("AWS::Logs::LogGroup")
FUNCTIONS = resources("AWS::Lambda::Function")
EDGE_SECRET: Any = {"Fn::If": ["HasEdge", {"Fn::Sub": "{{resolve:secretsmanager:${EdgeSecret}}}"}, ""]}
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


def test_each_call_asks_for_its_token_anew() -> None:
    (authoriser,) = resources("AWS::ApiGatewayV2::Authorizer").values()
    assert settled(authoriser["AuthorizerResultTtlInSeconds"]) == 0, "a revoked token is refused at once"
    assert authoriser["IdentitySource"] == ["$request.header.Authorization"], "no answer serves another token"


def test_waiting_consumers_are_bounded_out_of_the_box() -> None:
    variables = FUNCTIONS["ConsumerFunction"]["Environment"]["Variables"]
    bounds = (settled(variables["MAX_WAITING"]), settled(variables["MAX_WAITING_PER_TOKEN"]))
    assert bounds == (MAX_WAITING, MAX_WAITING_PER_TOKEN) == (400, 100)


def test_worker_is_traced_where_that_is_asked_for() -> None:
    assert FUNCTIONS["WorkerFunction"]["TracingConfig"]["Mode"] == {"Fn::If": ["IsTraced", "Active", "PassThrough"]}
    assert document()["Conditions"]["IsTraced"] == {"Fn::Equals": [{"Ref": "Tracing"}, "on"]}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_variable_holds_a_secret(name: str) -> None:
    """One that is called so holds a place in Secrets Manager; nothing else is long enough to be one."""
    for variable, value in FUNCTIONS[name]["Environment"]["Variables"].items():
        written = settled(value)
        if variable == "EDGE_SECRET":  # marks what came through CloudFront; it opens nothing by itself
            assert value == EDGE_SECRET
        elif "SECRET" in variable:
            assert written["Fn::Sub"].startswith("secretsmanager:${"), variable
        elif isinstance(written, str):
            assert len(written) < 40, variable


def test_no_update_of_the_stack_can_change_a_secret() -> None:
    """CloudFormation writes a value from SecretString or GenerateSecretString only, and a new secret for a new Name."""
    secrets = resources("AWS::SecretsManager::Secret")
    secrets.pop("EdgeSecret")  # nobody else holds a copy of it
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


def test_what_stands_before_the_api_is_an_option_and_cannot_be_gone_around() -> None:
    written = document()["Resources"]
    for name in ("EdgeDistribution", "EdgeSecret"):
        assert written[name]["Condition"] == "HasEdge"
    config = written["EdgeDistribution"]["Properties"]["DistributionConfig"]
    assert config["WebACLId"] == {"Fn::If": ["HasWebAcl", {"Ref": "WebAclArn"}, {"Ref": "AWS::NoValue"}]}
    (origin,) = config["Origins"]
    assert origin["DomainName"]["Fn::Sub"].startswith("${Api}.execute-api.")
    (header,) = origin["OriginCustomHeaders"]
    assert header["HeaderName"] == EDGE_HEADER
    assert header["HeaderValue"] == EDGE_SECRET["Fn::If"][1]
    behind = {resource["Properties"]["IntegrationUri"]["Fn::GetAtt"][0] for resource in written.values()
              if resource["Type"] == "AWS::ApiGatewayV2::Integration"}  # fmt: skip
    asking = {name for name, found in FUNCTIONS.items() if "EDGE_SECRET" in found["Environment"]["Variables"]}
    assert asking == behind, "every function that a route leads to"
    behaviour = config["DefaultCacheBehavior"]
    assert behaviour["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad", "CachingDisabled"
    assert (behaviour["ViewerProtocolPolicy"], len(behaviour["AllowedMethods"])) == ("https-only", 7)


def test_room_is_kept_only_where_it_is_asked_for() -> None:
    nothing = {"Ref": "AWS::NoValue"}
    defaults = {name: found.get("Default") for name, found in document()["Parameters"].items()}
    wanted = {
        "IsWarm": ("WarmWrites", TABLES["QueueTable"]["WarmThroughput"]),
        "HasIngressConcurrency": ("IngressConcurrency", FUNCTIONS["IngressFunction"]["ReservedConcurrentExecutions"]),
        "HasConsumerConcurrency": (
            "ConsumerConcurrency",
            FUNCTIONS["ConsumerFunction"]["ReservedConcurrentExecutions"],
        ),
    }
    for condition, (parameter, written) in wanted.items():
        assert (written["Fn::If"][0], written["Fn::If"][2]) == (condition, nothing)
        asked = {"Fn::Not": [{"Fn::Equals": [{"Ref": parameter}, 0]}]}
        assert (document()["Conditions"][condition], defaults[parameter]) == (asked, 0)
