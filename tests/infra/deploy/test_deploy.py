"""A real `sam build` and `sam deploy`, and the deployed product at work: 202, worker, result, admin, both wake-ups."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.build.artifact import build_app, this_machine
from infra.local.dynamodb import REGION, ROOT
from infra.local.ministack import MiniStack
from infra.local.template import Template
from millrace.app.layout import App
from tests.infra.deploy.cloud import ARTIFACTS, SECRET, Deployment, sam, until

pytestmark = pytest.mark.deploy
TEMPLATE = Template.read()


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built for this machine: MiniStack runs functions with its own Python."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(ROOT / "infra" / "example", folder, dirs_exist_ok=True)
    return build_app(App(folder), this_machine())


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniStack]:
    with MiniStack(log=tmp_path_factory.mktemp("account") / "ministack.log") as stack:
        yield stack


@pytest.fixture(scope="module")
def stack(account: MiniStack, build: Path) -> Deployment:
    deployment = Deployment("first", account.url, build)
    where = {"LocationConstraint": REGION}
    deployment.client("s3").create_bucket(Bucket=ARTIFACTS, CreateBucketConfiguration=where)
    assert "Successfully created/updated stack" in deployment.deploy()
    status, _ = deployment.webhook("EARLY")
    assert status == 500  # nothing can be verified until its secret is set
    deployment.set_secret("PAGERDUTY_WEBHOOK_SECRET", SECRET)
    until(lambda: deployment.webhook("SET", secret="wrong")[0] == 401, "the secret in use")
    return deployment


def test_template_is_valid_to_sam() -> None:
    assert "is a valid SAM Template" in sam("validate", "--lint", "--template", "template.yaml")


def test_every_resource_is_there(stack: Deployment) -> None:
    expected = {name for name, written in TEMPLATE.resources.items() if "Condition" not in written}
    found = stack.resources()
    assert set(found) >= expected
    assert {resource["ResourceStatus"] for resource in found.values()} == {"CREATE_COMPLETE"}


def test_functions_are_what_the_template_says(stack: Deployment) -> None:
    client = stack.client("lambda")
    for name, function in TEMPLATE.functions().items():
        found = client.get_function_configuration(FunctionName=stack.resources()[name]["PhysicalResourceId"])
        assert found["Handler"] == function.handler
        assert found["FunctionName"].startswith("first-")
        assert found["Environment"]["Variables"]["QUEUE_TABLE"] == stack.outputs["QueueTableName"]
        own = {"LOG_LEVEL"} if name == "WorkerFunction" else set()  # what the example's template adds
        assert set(found["Environment"]["Variables"]) == {*function.environment, *own}
        assert found["CodeSize"] < 14_000_000


def test_tables_bucket_logs_and_alarms_are_what_the_template_says(stack: Deployment) -> None:
    table = stack.client("dynamodb").describe_table(TableName=stack.outputs["QueueTableName"])["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    access = stack.client("s3").get_public_access_block(Bucket=stack.outputs["BodyBucketName"])
    assert set(access["PublicAccessBlockConfiguration"].values()) == {True}
    groups = stack.client("logs").describe_log_groups(logGroupNamePrefix="/millrace/first/")["logGroups"]
    assert {group["retentionInDays"] for group in groups} == {7}
    assert len(groups) == len(TEMPLATE.of_type("AWS::Logs::LogGroup"))
    alarms = stack.client("cloudwatch").describe_alarms(AlarmNamePrefix="first-")["MetricAlarms"]
    assert len(alarms) == len(TEMPLATE.of_type("AWS::CloudWatch::Alarm"))
    assert stack.client("cloudwatch").get_dashboard(DashboardName="first")["DashboardBody"]


def test_api_has_every_route_and_guards_it(stack: Deployment) -> None:
    api = stack.resources()["Api"]["PhysicalResourceId"]
    found = stack.client("apigatewayv2").get_routes(ApiId=api)["Items"]
    guarded = {route["RouteKey"]: route["AuthorizationType"] == "CUSTOM" for route in found}
    assert guarded == {route.key: route.authoriser is not None for route in TEMPLATE.routes()}


def test_a_bad_signature_is_refused(stack: Deployment) -> None:
    status, _ = stack.webhook("FORGED", secret="not the secret")
    assert status == 401


def test_the_stream_alone_wakes_the_worker(stack: Deployment) -> None:
    stack.client("events").disable_rule(Name="first-sweep")
    try:
        status, answer = stack.webhook("STREAM")
        assert status == 202, answer
        done = stack.done(answer["message_id"], stack.token())
    finally:
        stack.client("events").enable_rule(Name="first-sweep")
    assert done["result"] == {"incident_id": "pagerduty-STREAM", "severity": "critical", "state": "open"}
    status, repeated = stack.webhook("STREAM")
    assert (status, repeated["message_id"]) == (200, answer["message_id"])


def test_the_schedule_alone_wakes_the_worker(stack: Deployment) -> None:
    client = stack.client("lambda")
    mapping = stack.resources()["StreamWakeUp"]["PhysicalResourceId"]
    client.update_event_source_mapping(UUID=mapping, Enabled=False)
    try:
        status, answer = stack.webhook("SCHEDULE")
        assert status == 202, answer
        done = stack.done(answer["message_id"], stack.token())
    finally:
        client.update_event_source_mapping(UUID=mapping, Enabled=True)
    assert done["result"]["incident_id"] == "pagerduty-SCHEDULE"


@pytest.mark.parametrize(
    ("headers", "expected"), [({}, 401), ({"authorization": "Bearer nobody"}, 403)], ids=["without", "wrong"]
)
@pytest.mark.parametrize("path", ["/admin/queues", "/v1/queues"])
def test_no_token_no_answer(stack: Deployment, path: str, headers: dict[str, str], expected: int) -> None:
    assert stack.request("GET", path, headers)[0] == expected


@pytest.mark.parametrize("path", ["/admin/queues", "/v1/queues"])
def test_a_token_opens_the_apis(stack: Deployment, path: str) -> None:
    status, answer = stack.request("GET", path, stack.token())
    assert status == 200
    assert "WebhookIngress" in {queue["name"] for queue in answer["queues"]}


def test_deploying_again_changes_nothing(stack: Deployment) -> None:
    before = stack.resources()
    stack.set_secret("SOMEBODYS_OWN", "kept")
    assert "up to date" in stack.deploy()
    assert _identities(stack.resources()) == _identities(before)


def test_an_update_of_the_secrets_own_description_leaves_its_values(stack: Deployment, build: Path) -> None:
    template = json.loads(build.read_text())
    template["Resources"]["WebhookSecrets"]["Properties"]["Description"] = "Said anew."
    changed = build.with_name("changed.json")
    changed.write_text(json.dumps(template))
    Deployment(stack.name, stack.endpoint, changed).deploy()
    found = stack.client("secretsmanager")
    assert found.describe_secret(SecretId=stack.outputs["WebhookSecretsName"])["Description"] == "Said anew."
    stored = found.get_secret_value(SecretId=stack.outputs["WebhookSecretsName"])
    assert json.loads(stored["SecretString"]) == {"PAGERDUTY_WEBHOOK_SECRET": SECRET, "SOMEBODYS_OWN": "kept"}


def test_a_second_stack_lives_beside_the_first(stack: Deployment, build: Path) -> None:
    second = Deployment("second", stack.endpoint, build)
    second.deploy()
    try:
        shared = set(_identities(stack.resources()).values()) & set(_identities(second.resources()).values())
        assert shared == {"$default"}  # the stage, named within its API
        second.set_secret("PAGERDUTY_WEBHOOK_SECRET", SECRET)
        status, answer = second.webhook("SECOND")
        assert status == 202, answer
        assert second.done(answer["message_id"], second.token())["result"]["incident_id"] == "pagerduty-SECOND"
        status, _ = stack.request("GET", f"/v1/queues/WebhookIngress/messages/{answer['message_id']}", stack.token())
        assert status == 404
    finally:
        second.delete()


def test_deleting_takes_everything_but_the_data(stack: Deployment) -> None:
    outputs, resources = stack.outputs, stack.resources()
    stack.delete()
    functions = {found["FunctionName"] for found in stack.client("lambda").list_functions()["Functions"]}
    assert not functions & {resources[name]["PhysicalResourceId"] for name in TEMPLATE.functions()}
    assert stack.client("events").list_rules(NamePrefix="first-")["Rules"] == []
    assert stack.client("cloudwatch").describe_alarms(AlarmNamePrefix="first-")["MetricAlarms"] == []
    kept = stack.client("dynamodb").list_tables()["TableNames"]
    assert {outputs["QueueTableName"], outputs["DeadLetterTableName"]} <= set(kept)
    stack.client("s3").head_bucket(Bucket=outputs["BodyBucketName"])


def _identities(resources: dict[str, Any]) -> dict[str, str]:
    return {name: found["PhysicalResourceId"] for name, found in resources.items()}
