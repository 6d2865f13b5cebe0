"""The template and the code say the same: handlers, environment, routes, tables, the stream's filter, names."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from functions.admin.pages import app as console
from infra.build.artifact import ARTIFACTS
from infra.local.dynamodb import ROOT
from infra.local.gateway import Binding
from infra.local.streams import LANES
from infra.local.template import Function, GatewayRoute, Reference, Template
from millrace.admin.api import ROUTES as ADMIN_ROUTES
from millrace.aws.settings import Settings
from millrace.openapi import V1_ROUTES
from millrace.signatures.secrets import STORE
from millrace.stores.dynamodb.tables import DeadLetterItem, MessageItem
from millrace.worker.deployment import TARGET_SECRETS
from millrace.worker.wakeup import read_event

TEMPLATE = Template.read()
FUNCTIONS = TEMPLATE.functions()
#: Set by Lambda, by whoever runs the local stack, or left at its default on purpose.
NOT_OURS = {
    "_X_AMZN_TRACE_ID",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CA_BUNDLE",
    "SHARED_PROCESS",
    "TARGET_FOLLOW_REDIRECTS",
    "TARGET_ALLOW_LOOPBACK",
    "OTEL_TRACES_EXPORTER",
    "OTEL_SDK_DISABLED",
    "PROMETHEUS",
}
#: Read by Powertools, and by the ingress for the same lines.
POWERTOOLS = {"POWERTOOLS_LOG_LEVEL"}
READS = re.compile(r"""(?:environ(?:ment)?(?:\.get\(|\[)|need\(|_listed\(environment, )"([A-Z_]{4,})\"""")


def sources() -> str:
    files = [*ROOT.glob("functions/**/*.py"), *ROOT.glob("shared/millrace/**/*.py")]
    no_function = [ROOT / "shared" / "millrace" / name for name in ("app", "cli")]
    kept = [path for path in files if not any(path.is_relative_to(folder) for folder in no_function)]
    return "\n".join(path.read_text("utf-8") for path in kept)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_handler_is_there_and_in_its_artifact(function: Function) -> None:
    module, _, name = function.handler.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))
    assert module.split(".")[1] == ARTIFACTS[function.name].folder


def test_every_function_has_an_artifact_and_every_artifact_a_function() -> None:
    assert set(ARTIFACTS) == set(FUNCTIONS)
    folders = {path.parent.name for path in ROOT.glob("functions/*/__init__.py")}
    assert folders - {"bulk_enqueue"} == {artifact.folder for artifact in ARTIFACTS.values()}


def test_artifact_carries_the_definitions_where_the_environment_says() -> None:
    for function in FUNCTIONS.values():
        reads_definitions = function.name != "AuthoriserFunction"
        assert function.environment["DEFINITIONS"] == "definitions.json"
        assert ARTIFACTS[function.name].needs_definitions == reads_definitions


def test_every_variable_that_the_code_reads_is_set_or_left_out_knowingly() -> None:
    read = set(READS.findall(sources()))
    given = {name for function in FUNCTIONS.values() for name in function.environment}
    assert read - given - NOT_OURS == set()
    assert NOT_OURS & given == set()


def test_every_variable_that_is_set_is_read() -> None:
    read = set(READS.findall(sources()))
    given = {name for function in FUNCTIONS.values() for name in function.environment}
    assert given - read - POWERTOOLS == {STORE, TARGET_SECRETS}


def test_settings_can_be_made_from_what_each_function_gets() -> None:
    for function in FUNCTIONS.values():
        Settings.from_environment({name: str(TEMPLATE.default(value)) for name, value in function.environment.items()})


def test_the_webhooks_secret_is_made_empty_so_that_no_update_can_touch_its_values() -> None:
    for name in ("WebhookSecrets", "TargetSecrets"):
        assert set(TEMPLATE.resources[name]["Properties"]) == {"Name", "Description"}
    assert FUNCTIONS["IngressFunction"].environment[STORE] == Reference("Sub", "secretsmanager:${WebhookSecrets}")
    assert FUNCTIONS["WorkerFunction"].environment[TARGET_SECRETS] == Reference(
        "Sub", "secretsmanager:${TargetSecrets}"
    )


def serving(method: str, path: str) -> GatewayRoute:
    """The route that serves a request, as the gateway chooses."""
    concrete = re.sub(r"\{(\w+)\}", r"some-\1", path)
    for route in TEMPLATE.routes():
        if Binding(route.key, print).match(method, concrete) is not None:
            return route
    raise AssertionError(f"no route serves {method} {path}")


@pytest.mark.parametrize(
    ("function", "route"),
    [("ConsumerFunction", route) for route in V1_ROUTES] + [("AdminFunction", route) for route in ADMIN_ROUTES],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_route_reaches_its_function_and_is_guarded_where_it_needs_a_token(function: str, route: Any) -> None:
    found = serving(route.method, route.path)
    assert found.function == function
    assert found.authoriser == ("AuthoriserFunction" if route.scopes else None)


@pytest.mark.parametrize("path", sorted(console.routes))
def test_page_of_the_console_reaches_its_function_unguarded(path: str) -> None:
    found = serving("GET", path)
    assert (found.function, found.authoriser) == ("AdminFunction", None)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
@pytest.mark.parametrize("path", ["/hook/{name}", "/hook/{tenant}/{name}"])
def test_webhooks_reach_the_ingress_unguarded(method: str, path: str) -> None:
    assert serving(method, path) == GatewayRoute(f"{method} {path}", "IngressFunction", None)


def test_api_may_call_every_function_that_it_routes_to() -> None:
    allowed = {
        written["FunctionName"].argument
        for written in TEMPLATE.of_type("AWS::Lambda::Permission").values()
        if written["Principal"] == "apigateway.amazonaws.com"
    }
    called = {route.function for route in TEMPLATE.routes()} | {"AuthoriserFunction"}
    assert allowed == called


@pytest.mark.parametrize(("name", "model"), [("QueueTable", MessageItem), ("DeadLetterTable", DeadLetterItem)])
def test_table_is_what_its_model_says(name: str, model: type[MessageItem | DeadLetterItem]) -> None:
    table = TEMPLATE.resources[name]["Properties"]
    expected = model._get_schema()
    assert table["KeySchema"] == expected["key_schema"]
    assert table["AttributeDefinitions"] == expected["attribute_definitions"]
    assert table["TimeToLiveSpecification"]["AttributeName"] == model.ttl.attr_name
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert table["SSESpecification"]["SSEEnabled"] is True
    assert TEMPLATE.resources[name]["DeletionPolicy"] == "RetainExceptOnCreate"


def test_stream_wakes_the_worker_for_new_entries_only() -> None:
    assert TEMPLATE.resources["QueueTable"]["Properties"]["StreamSpecification"]["StreamViewType"] == "KEYS_ONLY"
    mapping = TEMPLATE.resources["StreamWakeUp"]["Properties"]
    pattern = json.loads(mapping["FilterCriteria"]["Filters"][0]["Pattern"])
    assert pattern["eventName"] == ["INSERT"]
    assert [found["prefix"] for found in pattern["dynamodb"]["Keys"]["sk"]["S"]] == list(LANES)


def test_schedule_sends_what_its_functions_understand() -> None:
    sent = {t["Id"]: json.loads(t["Input"]) for t in TEMPLATE.resources["SweepSchedule"]["Properties"]["Targets"]}
    assert read_event(sent["worker"]).sweep
    # The admin function takes whatever is neither a request nor a job's own call for its schedule.
    assert not {"requestContext", "job"} & set(sent["admin"])
    assert read_event(json.loads((ROOT / "events" / "worker-schedule.json").read_text("utf-8"))).sweep


def test_what_has_a_name_begins_with_the_stacks() -> None:
    """Two stacks in one account must not meet."""
    kinds = ("FunctionName", "Name", "QueueName", "LogGroupName", "AlarmName", "TopicName", "DashboardName")
    for resource, written in TEMPLATE.resources.items():
        named = [written["Properties"][kind] for kind in kinds if kind in written["Properties"]]
        if written["Type"] in ("AWS::ApiGatewayV2::Authorizer", "AWS::Lambda::Permission"):
            continue  # named within their parent
        for name in named:
            if written["Type"] in ("AWS::Lambda::EventSourceMapping", "AWS::Lambda::EventInvokeConfig"):
                assert isinstance(name, Reference)
                continue
            assert "AWS::StackName" in name.argument, resource
    for table in TEMPLATE.of_type("AWS::DynamoDB::Table").values():
        assert "TableName" not in table
    assert "BucketName" not in TEMPLATE.resources["BodyBucket"]["Properties"]


def test_every_function_keeps_its_logs_for_a_time_and_has_an_alarm() -> None:
    for name in FUNCTIONS:
        written = TEMPLATE.resources[name]["Properties"]
        group = TEMPLATE.resources[written["LoggingConfig"]["LogGroup"].argument]["Properties"]
        assert group["RetentionInDays"] == Reference("Ref", "LogDays")
        watched = [
            alarm
            for alarm in TEMPLATE.of_type("AWS::CloudWatch::Alarm").values()
            if alarm["MetricName"] == "Errors" and alarm["Dimensions"][0]["Value"] == Reference("Ref", name)
        ]
        assert len(watched) == 1


def test_dashboard_is_json() -> None:
    body = TEMPLATE.resources["Dashboard"]["Properties"]["DashboardBody"].argument
    widgets = json.loads(body)["widgets"]
    assert len({(widget["x"], widget["y"]) for widget in widgets}) == len(widgets) == 9


def test_alarms_watch_metrics_that_the_code_writes() -> None:
    written = sources()
    for name, alarm in TEMPLATE.of_type("AWS::CloudWatch::Alarm").items():
        if isinstance(alarm["Namespace"], Reference):
            assert f'"{alarm["MetricName"]}"' in written, name
            assert alarm["Dimensions"] == [{"Name": "service", "Value": "queues"}]


@pytest.mark.parametrize(
    "sample",
    [
        "ingress-pagerduty-base64-v2.json", "consumer-enqueue.json", "authoriser-request.json", "worker-stream.json",
        "worker-schedule.json", "worker-queue.json", "admin-list-queues.json", "admin-schedule.json", "admin-job.json",
    ],
)  # fmt: skip
def test_every_trigger_has_a_sample_event(sample: str) -> None:
    assert isinstance(json.loads(Path(ROOT, "events", sample).read_text("utf-8")), dict)
