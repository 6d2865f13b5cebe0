"""The app's template and the bundle's, joined: what is added, what is set, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.build.artifact import ARTIFACTS
from millrace.app.template import (
    TemplateInvalid,
    artifact_names,
    merged_template,
    own_variables,
    read_template,
    write_template,
)
from tests.app.apps import make


def merged(folder: Path, text: str) -> dict[str, Any]:
    return merged_template(make(folder, {"template.yaml": text}))


def test_without_a_template_of_its_own_an_app_gets_the_bundles(tmp_path: Path) -> None:
    template = merged_template(make(tmp_path))
    assert template["Resources"]["WorkerFunction"]["Properties"]["CodeUri"] == "artifacts/WorkerFunction"
    assert set(artifact_names()) == set(ARTIFACTS)


def test_parameters_functions_roles_and_resources_are_set_joined_and_added(tmp_path: Path) -> None:
    template = merged(
        tmp_path,
        """
Parameters: { WorkerMemory: { Default: 1024 } }
Resources:
  WorkerFunction:
    Properties:
      Layers: [arn:layer]
      VpcConfig: { SubnetIds: [subnet-1], SecurityGroupIds: [sg-1] }
      Environment: { Variables: { ORDERS: !Ref OrdersTable } }
  WorkerRole:
    Properties:
      Policies:
        - PolicyName: orders
          PolicyDocument:
            Statement: [{ Effect: Allow, Action: "dynamodb:PutItem", Resource: !GetAtt OrdersTable.Arn }]
  OrdersTable: { Type: "AWS::DynamoDB::Table", Properties: {} }
Outputs: { Orders: { Value: !Sub "${OrdersTable}" } }
""",
    )
    resources = template["Resources"]
    worker = resources["WorkerFunction"]["Properties"]
    assert template["Parameters"]["WorkerMemory"] == {
        **read_template(Path("template.yaml"))["Parameters"]["WorkerMemory"],
        "Default": 1024,
    }
    assert worker["Environment"]["Variables"]["ORDERS"] == {"Ref": "OrdersTable"}
    assert worker["Environment"]["Variables"]["COMMANDS"] == {"Ref": "Commands"}
    assert worker["Layers"] == ["arn:layer"]
    names = [policy["PolicyName"] for policy in resources["WorkerRole"]["Properties"]["Policies"]]
    assert names == ["worker", "orders"]
    added = resources["WorkerRole"]["Properties"]["Policies"][1]["PolicyDocument"]["Statement"][0]
    assert added["Resource"] == {"Fn::GetAtt": ["OrdersTable", "Arn"]}
    assert template["Outputs"]["Orders"] == {"Value": {"Fn::Sub": "${OrdersTable}"}}


def test_a_value_takes_the_place_of_a_reference_and_the_other_way_round(tmp_path: Path) -> None:
    text = "Resources: { WorkerFunction: { Properties: { MemorySize: 3008, Timeout: !Ref WorkerTimeout } } }"
    worker = merged(tmp_path, text)["Resources"]["WorkerFunction"]["Properties"]
    assert (worker["MemorySize"], worker["Timeout"]) == (3008, {"Ref": "WorkerTimeout"})


def test_a_path_of_the_app_is_found_from_where_the_template_is_written(tmp_path: Path) -> None:
    text = "Resources: { Fonts: { Type: 'AWS::Serverless::LayerVersion', Properties: { ContentUri: layers/fonts } } }"
    app = make(tmp_path, {"template.yaml": text, "layers/fonts/one.ttf": ""})
    written = json.loads(write_template(app).read_text())["Resources"]["Fonts"]["Properties"]["ContentUri"]
    assert (app.generated / written / "one.ttf").is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Resources: { Fonts: { Type: 'A::B', Properties: { ContentUri: fonts } } }",
            "Fonts.ContentUri: there is no fonts",
        ),
        ("Transform: [AWS::LanguageExtensions]", "Transform is the bundle's"),
        ("Resources: { Orders: { Properties: {} } }", "Resources.Orders has no Type"),
        ("Resources: { QueueTable: { Type: 'AWS::SQS::Queue' } }", "choose another name"),
        ("Resorces: {}", "Resorces is no section"),
        ("- a list", "is no template"),
        ("a: [", "is not YAML"),
        ("Resources: { WorkerFunction: { Properties: { Environment: nothing } } }", "has a mapping here"),
    ],
)
def test_what_cannot_be_joined_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TemplateInvalid, match=said):
        merged(tmp_path, text)


def test_variables_of_the_app_are_known_locally_as_far_as_they_need_no_aws(tmp_path: Path) -> None:
    text = """
Parameters: { Shop: { Type: String, Default: corner }, Unknown: { Type: String } }
Globals: { Function: { Environment: { Variables: { LEVEL: INFO } } } }
Resources:
  WorkerFunction:
    Properties:
      Environment:
        Variables: { LEVEL: DEBUG, RATE: 5, SHOP: !Ref Shop, NONE: !Ref Unknown, ORDERS: !Ref Orders, MB: !Ref ApiRate }
  Orders: { Type: "AWS::DynamoDB::Table", Properties: {} }
"""
    app = make(tmp_path, {"template.yaml": text})
    worker = {"LEVEL": "DEBUG", "RATE": "5", "SHOP": "corner", "MB": "2000"}
    assert own_variables(app, "WorkerFunction", {"UNRELATED": "1"}) == worker
    assert own_variables(app, "WorkerFunction", {"ORDERS": "local", "RATE": "7"}) == {
        **worker,
        "ORDERS": "local",
        "RATE": "7",
    }
    assert own_variables(app, "AdminFunction", {}) == {"LEVEL": "INFO"}
    assert own_variables(make(tmp_path / "bare"), "WorkerFunction", {}) == {}


def test_the_written_template_lies_beside_the_artifacts(tmp_path: Path) -> None:
    path = write_template(make(tmp_path))
    assert path == tmp_path / ".millrace" / "template.json"
    assert json.loads(path.read_text())["Transform"] == "AWS::Serverless-2016-10-31"
