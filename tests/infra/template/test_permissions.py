"""Roles allow what the functions do, and nothing else: a missing permission fails here, and so does a needless one.

Each function is exercised through its handler, every call of AWS is noted as what IAM checks for it, and the notes are
compared with the role in the translated template. What Lambda itself does under the role is read from the wiring.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from infra.local.template import Reference, Template
from millrace.admin.api import ROUTES as ADMIN_ROUTES
from millrace.definitions import Definitions
from millrace.definitions.language.compiler import compile_files
from millrace.engine.queue import Runtime
from millrace.openapi import V1_ROUTES
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.scans import SCANNED
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.worker import breaker
from tests.conftest import WORKER
from tests.infra.template import flows
from tests.infra.template.cloud import BUCKET, STACK, Cloud, Need
from tests.infra.template.reach import reachable_methods
from tests.infra.template.stage import Exercise
from tests.infra.template.translated import allowed, listed, resource_name, statements, wired

TABLES = TableNames(f"millrace-{WORKER}-roles-queue", f"millrace-{WORKER}-roles-dead-letters")
TEMPLATE = Template.read()
FUNCTIONS = TEMPLATE.functions()
NAMES = ("Ingress", "Worker", "Consumer", "Admin", "Authoriser")
#: What a function makes once for each instance.
MADE_ONCE = {"Ingress": "ingress", "Worker": "drainer", "Consumer": "_made", "Admin": "service", "Authoriser": "tokens"}
#: Found by their names in the code, which knows no types, and yet out of reach.
NEVER_CALLED = {
    # A command that runs at once gets no claim, hence no queue.
    "Ingress": {"get_queue_state"},
    # It serves the document that describes the admin API, and none of that API's routes.
    "Consumer": {
        "delete_dead_letter",
        "drop_records",
        "erase_message",
        "get_entries",
        "get_sweep_position",
        "mark_replayed",
        "read_dead_letters",
        "read_samples",
        "read_webhook_problems",
        "set_breaker",
        "set_paused",
    },
    # Read only after a claim without an answer; `get_messages` needs the same permission.
    "Worker": {"get_entries"},
}
#: Roles that name each partition that they reach.
CONFINED = ("Ingress", "Consumer", "Authoriser")
#: Partitions that open everything.
SECRETS = {"TOKENS", "CLAIM_KEY"}
#: The only actions that AWS cannot narrow down to a resource.
UNNARROWED = {"dynamodb:ListStreams", "xray:PutTraceSegments", "xray:PutTelemetryRecords"}


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("proof.millrace")
    compiled = compile_files([(source.name, source.read_bytes())])
    assert compiled.definitions is not None, compiled.findings
    written = tmp_path_factory.mktemp("roles") / "definitions.json"
    written.write_text(json.dumps(compiled.definitions), "utf-8")
    return written


def meaning(value: Any) -> str:
    """A variable of the template as it would be deployed, with every condition on."""
    if not isinstance(value, Reference):
        return str(value)
    if value.kind == "If":
        return meaning(value.argument[1])
    if value.kind == "Sub":
        return re.sub(
            r"\$\{(?:AWS::)?(\w+)\}", lambda found: STACK if found[1] == "StackName" else found[1], value.argument
        )
    named = {"QueueTable": TABLES.queue, "DeadLetterTable": TABLES.dead_letters, "BodyBucket": BUCKET}
    return named.get(value.argument) or str(TEMPLATE.default(value))


@pytest.fixture(scope="module")
def exercised(engine_url: str, definitions: Path) -> dict[str, Exercise]:
    """Every function, exercised once."""
    create_tables(TABLES, endpoint_url=engine_url, region=REGION)
    client = dynamodb_client(endpoint_url=engine_url, region=REGION)
    exercises: dict[str, Exercise] = {}
    for name in NAMES:
        cloud = Cloud(TABLES)
        runtime = Runtime(DynamoStore(client, TABLES), cloud.blobs(), keys=cloud.keys)
        found = Definitions(json.loads(definitions.read_text("utf-8")))
        tokens, jobs = DynamoTokens(client, TABLES.queue), DynamoAdminJobs(client, TABLES.queue)
        exercises[name] = Exercise(cloud, runtime, found, f"t{name.lower()}", tokens, jobs)
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in FUNCTIONS[f"{name}Function"].environment.items():
                patch.setenv(variable, meaning(value))
            own = {
                "DEFINITIONS": str(definitions),
                "COMMANDS": "tests.infra.template.flows",
                "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
                "AWS_REGION": REGION,
                "AWS_LAMBDA_FUNCTION_NAME": f"{STACK}-{name.lower()}",
                "MAX_WAITING": "1",
                "EDGE_SECRET": "",  # the calls come to the API's own address
                "DEFAULT_TENANT": exercises[name].tenant,
            }
            for variable, value in own.items():
                patch.setenv(variable, value)
            # A worker waits in real time for the next probe of a target that is down.
            patch.setattr(breaker, "FIRST_MS", 20)
            patch.setattr(breaker, "MAX_MS", 50)
            patch.setattr(breaker, "LOOK_MS", 10)
            _exercise(name, exercises[name])
    return exercises


def _exercise(name: str, exercise: Exercise) -> None:
    module_name, _, attribute = FUNCTIONS[f"{name}Function"].handler.rpartition(".")
    module = importlib.import_module(module_name)
    make = getattr(module, MADE_ONCE[name])
    make.cache_clear()
    getattr(flows, f"exercise_{name.lower()}")(exercise, getattr(module, attribute))
    if name in ("Ingress", "Worker"):  # on the minimal client
        make().runtime.store._calls.client.close()
    make.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_role_allows_what_its_function_does_and_nothing_else(name: str, exercised: dict[str, Exercise]) -> None:
    done = {Need(need.action, need.resource) for need in exercised[name].cloud.needs}
    needed = done | wired(f"{name}Function")
    role = allowed(f"{name}Role")
    assert needed - role == set(), "missing"
    assert role - needed == set(), "needless"


@pytest.mark.parametrize("name", NAMES)
def test_play_makes_every_call_that_the_code_can_make(name: str, exercised: dict[str, Exercise]) -> None:
    """A method of the store that the code mentions and the exercise does not call may need more than was noted."""
    unplayed = reachable_methods(FUNCTIONS[f"{name}Function"].handler) - exercised[name].cloud.methods
    assert unplayed == NEVER_CALLED.get(name, set())


@pytest.mark.parametrize(("name", "routes"), [("Consumer", V1_ROUTES), ("Admin", ADMIN_ROUTES)])
def test_play_calls_every_route(name: str, routes: Any, exercised: dict[str, Exercise]) -> None:
    patterns = {route.name: (route.method, re.sub(r"\{\w+\}", "[^/]+", route.path)) for route in routes}
    silent = {
        route
        for route, (method, pattern) in patterns.items()
        if not any(method == called and re.fullmatch(pattern, path) for called, path in exercised[name].called)
    }
    assert silent == set()


@pytest.mark.parametrize("name", CONFINED)
def test_reach_is_cut_to_the_items_that_are_used(name: str, exercised: dict[str, Exercise]) -> None:
    """Of those that anybody's request meets, each partition by its name: none is missing, none is needless."""
    used = {need.partition for need in exercised[name].cloud.needs if need.resource == "QueueTable"}
    reach: dict[str, set[str]] = {}
    for found in statements(f"{name}Role"):
        if resource_name(found["Resource"]) == "QueueTable":
            assert set(found["Condition"]) <= {"ForAllValues:StringLike", "ForAllValues:StringEquals"}
            (keys,) = found["Condition"].values()
            for key in keys["dynamodb:LeadingKeys"]:
                reach.setdefault(key, set()).update(listed(found["Action"]))
    assert set(reach) == used
    assert reach.get("Z#*", {"dynamodb:GetItem"}) == {"dynamodb:GetItem"}, "dictionaries are the sweep's to write"
    assert used & SECRETS == {"Consumer": {"CLAIM_KEY"}, "Authoriser": {"TOKENS"}}.get(name, set())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CONFINED])
def test_tokens_and_the_key_of_claims_are_denied_to_the_others(name: str, exercised: dict[str, Exercise]) -> None:
    used = {need.partition for need in exercised[name].cloud.needs if need.resource == "QueueTable"}
    assert not used & SECRETS
    (denied,) = (found for found in statements(f"{name}Role") if found["Effect"] == "Deny")
    assert (denied["Action"], resource_name(denied["Resource"])) == ("dynamodb:*", "QueueTable")
    ((test, keys),) = denied["Condition"].items()
    assert test == "ForAnyValue:StringEquals"
    assert set(keys["dynamodb:LeadingKeys"]) == SECRETS


def test_a_scan_sees_nothing_of_tokens_and_the_key_of_claims(
    exercised: dict[str, Exercise],
) -> None:
    """It has no leading key to deny: it may name some attributes and no others, which hold nothing secret."""
    (scan,) = (found for found in statements("AdminRole") if "dynamodb:Scan" in listed(found["Action"]))
    condition = scan["Condition"]
    assert condition["StringEquals"] == {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
    seen = set(condition["ForAllValues:StringEquals"]["dynamodb:Attributes"])
    assert seen == exercised["Admin"].cloud.scanned == set(SCANNED)
    store = exercised["Admin"].runtime.store
    assert isinstance(store, DynamoStore)
    for partition in SECRETS:
        items = store._calls.query_all(TABLES.queue, partition)
        assert items, f"the play made something secret in {partition}"
        assert all(seen & set(item) == {"pk", "sk"} for item in items)
    others = [name for name in NAMES if name != "Admin"]
    assert not any("dynamodb:Scan" in listed(found["Action"]) for name in others for found in statements(f"{name}Role"))


@pytest.mark.parametrize("name", [*NAMES, "Bulk"])
def test_keys_serve_for_what_queues_keep_and_nothing_else(name: str) -> None:
    """A role can unwrap no data key that was made for anything but a tenant's queue; the ingress unwraps none."""
    allowed_actions = {"Authoriser": [set()], "Ingress": [{"kms:GenerateDataKey"}]}
    found = [one for one in statements(f"{name}Role") if any("kms:" in action for action in listed(one["Action"]))]
    actions = [set(listed(one["Action"])) for one in found] or [set()]
    assert actions == allowed_actions.get(name, [{"kms:Decrypt", "kms:GenerateDataKey"}])
    for one in found:
        context = {"kms:EncryptionContext:tenant": "false", "kms:EncryptionContext:queue": "false"}
        assert (one["Condition"], resource_name(one["Resource"])) == ({"Null": context}, "EncryptionKeys")


@pytest.mark.parametrize("name", NAMES)
def test_no_role_reaches_beyond_its_stack(name: str) -> None:
    for statement in statements(f"{name}Role"):
        if statement["Effect"] == "Allow":
            actions = set(listed(statement["Action"]))
            assert not any("*" in action for action in actions)
            assert statement["Resource"] != "*" or actions <= UNNARROWED


@pytest.mark.parametrize("name", NAMES)
def test_every_function_has_a_role_of_its_own(name: str) -> None:
    written = TEMPLATE.resources[f"{name}Function"]["Properties"]
    assert written["Role"] == Reference("GetAtt", f"{name}Role.Arn")
    assert "Policies" not in written
