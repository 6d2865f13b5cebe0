"""What template.yaml says, read for the local stack and for tests: its functions, their environment, its routes.

Only what these need is understood: a reference stays a `Reference`, for the reader to give a meaning to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infra.local.dynamodb import ROOT

PATH = ROOT / "template.yaml"


@dataclass(frozen=True, slots=True)
class Reference:
    """A `!Ref`, `!GetAtt`, `!Sub` or another function of CloudFormation, unresolved."""

    kind: str
    argument: Any


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda function of the template."""

    name: str  #: logical id
    handler: str  #: `package.module.attribute`
    environment: Mapping[str, Any]
    timeout_s: int


@dataclass(frozen=True, slots=True)
class GatewayRoute:
    """A route of the HTTP API."""

    key: str  #: `POST /hook/{name}`
    function: str  #: logical id
    authoriser: str | None  #: logical id of its function


@dataclass(frozen=True, slots=True)
class Template:
    """The template, as written."""

    document: Mapping[str, Any]
    resources: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path = PATH) -> Template:
        document = yaml.load(path.read_text("utf-8"), Loader=_Loader)  # noqa: S506 (a safe loader with more tags)
        return cls(document, document["Resources"])

    def of_type(self, kind: str) -> dict[str, Any]:
        return {name: found["Properties"] for name, found in self.resources.items() if found["Type"] == kind}

    def default(self, value: Any) -> Any:
        """A parameter's default where a value is a reference to one; else the value."""
        is_parameter = (
            isinstance(value, Reference) and value.kind == "Ref" and value.argument in self.document["Parameters"]
        )
        return self.document["Parameters"][value.argument]["Default"] if is_parameter else value

    def functions(self) -> dict[str, Function]:
        shared = self.document["Globals"]["Function"]
        found = {}
        for name, written in self.of_type("AWS::Serverless::Function").items():
            variables = {
                **shared["Environment"]["Variables"],
                **written.get("Environment", {}).get("Variables", {}),
            }
            timeout = int(self.default(written.get("Timeout", shared["Timeout"])))
            found[name] = Function(name, written["Handler"], variables, timeout)
        return found

    def routes(self) -> list[GatewayRoute]:
        """Routes in the order of API Gateway's choice: exact paths before patterns, greedy ones last."""
        integrations = self.of_type("AWS::ApiGatewayV2::Integration")
        found = []
        for route in self.of_type("AWS::ApiGatewayV2::Route").values():
            integration = route["Target"].argument.removeprefix("integrations/${").removesuffix("}")
            function = integrations[integration]["IntegrationUri"].argument.removesuffix(".Arn")
            authoriser = route.get("AuthorizerId")
            found.append(
                GatewayRoute(route["RouteKey"], function, self._authoriser(authoriser) if authoriser else None)
            )
        return sorted(found, key=lambda route: ("+}" in route.key, route.key.count("{"), -len(route.key)))

    def _authoriser(self, reference: Reference) -> str:
        uri: str = self.resources[reference.argument]["Properties"]["AuthorizerUri"].argument
        return uri.rpartition("functions/${")[2].partition(".Arn}")[0]


class _Loader(yaml.CSafeLoader):
    """YAML with CloudFormation's short functions."""


def _reference(loader: _Loader, suffix: str, node: yaml.Node) -> Reference:
    if isinstance(node, yaml.ScalarNode):
        return Reference(suffix, loader.construct_scalar(node))
    if isinstance(node, yaml.SequenceNode):
        return Reference(suffix, loader.construct_sequence(node, deep=True))
    assert isinstance(node, yaml.MappingNode)  # noqa: S101
    return Reference(suffix, loader.construct_mapping(node, deep=True))


_Loader.add_multi_constructor("!", _reference)
