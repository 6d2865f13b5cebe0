"""The template that is deployed: the bundle's, with what an app's own template adds or sets.

Where both have a mapping, they are merged key by key; lists are joined; any other value is the app's. So an app can set
a parameter's default, give a function layers, a VPC, variables, give a role policies, and add resources of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millrace.app.bundle import bundle_root
from millrace.app.layout import App

SECTIONS = ("Metadata", "Parameters", "Mappings", "Conditions", "Globals", "Resources", "Outputs")
#: What an app's template may say besides: the same as the bundle's.
_HEAD = ("AWSTemplateFormatVersion", "Transform", "Description")
FUNCTION = "AWS::Serverless::Function"
#: Properties that name a file or folder, which SAM uploads: an app writes them from its own folder.
_PATHS = ("CodeUri", "ContentUri", "DefinitionUri", "Location", "TemplateURL")


class TemplateInvalid(Exception):
    """An app's template that cannot be joined with the bundle's; says where and what to do."""


def read_template(path: Path) -> dict[str, Any]:
    """A template with CloudFormation's short functions written out as the long ones. Raises TemplateInvalid."""
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML with `!Ref` and the like."""

    def spelled(loader: Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
        if isinstance(node, yaml.ScalarNode):
            argument: Any = loader.construct_scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            argument = loader.construct_sequence(node, deep=True)
        elif isinstance(node, yaml.MappingNode):
            argument = loader.construct_mapping(node, deep=True)
        if suffix == "GetAtt" and isinstance(argument, str):
            argument = argument.split(".", 1)
        return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": argument}

    Loader.add_multi_constructor("!", spelled)
    try:
        document = yaml.load(path.read_text("utf-8"), Loader=Loader) or {}  # noqa: S506 (a safe loader with more tags)
    except yaml.YAMLError as error:
        raise TemplateInvalid(f"{path} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise TemplateInvalid(f"{path} is no template: it must be a mapping with Parameters, Resources and so on.")
    return document


def merged_template(app: App) -> dict[str, Any]:
    """What is deployed for an app. Raises TemplateInvalid."""
    template = read_template(bundle_root() / "template.yaml")
    own = _own_template(app, template["Transform"])
    for section in SECTIONS:
        if section in own:
            template[section] = _merged(template.get(section, {}), own[section], f"{app.template}: {section}")
    for name, resource in template["Resources"].items():
        if "Type" not in resource:
            raise TemplateInvalid(f"{app.template}: Resources.{name} has no Type, and the bundle has no such resource.")
        if resource["Type"] == FUNCTION and name in artifact_names():
            resource["Properties"]["CodeUri"] = f"artifacts/{name}"
    return template


def _own_template(app: App, transform: str) -> dict[str, Any]:
    """What the app adds, with its paths as SAM reads them. Raises TemplateInvalid."""
    own = read_template(app.template) if app.template.exists() else {}
    unknown = set(own) - {*SECTIONS, *_HEAD}
    if unknown:
        raise TemplateInvalid(
            f"{app.template}: {', '.join(sorted(unknown))} is no section. Sections: {', '.join(SECTIONS)}."
        )
    if own.get("Transform", transform) != transform:
        raise TemplateInvalid(f"{app.template}: Transform is the bundle's, {transform}, and can be no other.")
    for name, resource in (own.get("Resources") or {}).items():
        properties = resource.get("Properties") or {} if isinstance(resource, dict) else {}
        for key in _PATHS:
            if isinstance(properties.get(key), str) and "://" not in properties[key]:
                properties[key] = _beside_the_artifacts(app, properties[key], f"Resources.{name}.{key}")
    return own


def _beside_the_artifacts(app: App, path: str, where: str) -> str:
    """A path of the app, from the folder of the written template: SAM looks there."""
    if not (app.root / path).exists():
        raise TemplateInvalid(f"{app.template}: {where}: there is no {path} in {app.root}.")
    return os.path.relpath(app.root / path, app.generated)


def own_variables(app: App, function: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the app's template gives a function, for the local stack. Raises TemplateInvalid.

    Known without AWS are texts, numbers and defaults of parameters; `environment` has the first word, and the only
    one about what refers to a resource.
    """
    own = read_template(app.template) if app.template.exists() else {}
    places = (
        own.get("Globals", {}).get("Function", {}),
        own.get("Resources", {}).get(function, {}).get("Properties", {}),
    )
    given = {
        name: value for place in places for name, value in place.get("Environment", {}).get("Variables", {}).items()
    }
    parameters = merged_template(app)["Parameters"] if given else {}
    found = {}
    for name, value in given.items():
        known = parameters.get(value.get("Ref"), {}).get("Default") if isinstance(value, dict) else value
        if name in environment or known is not None:
            found[name] = environment.get(name, str(known))
    return found


def own_defaults(app: App) -> dict[str, Any]:
    """The defaults that the app's template gives to parameters, its own and the bundle's. Raises TemplateInvalid."""
    own = read_template(app.template) if app.template.exists() else {}
    return {name: given["Default"] for name, given in own.get("Parameters", {}).items() if "Default" in given}


def artifact_names() -> tuple[str, ...]:
    """The functions of the bundle."""
    return ("IngressFunction", "WorkerFunction", "ConsumerFunction", "AdminFunction", "AuthoriserFunction")


def _merged(ours: Any, own: Any, where: str) -> Any:
    if _is_function(ours) or _is_function(own):
        return own
    if isinstance(ours, Mapping) and isinstance(own, Mapping):
        if "Type" in ours and own.get("Type", ours["Type"]) != ours["Type"]:
            raise TemplateInvalid(f"{where}: the bundle has one of type {ours['Type']}: choose another name.")
        both = {name: _merged(ours[name], own[name], f"{where}.{name}") for name in ours if name in own}
        return {**ours, **own, **both}
    if isinstance(ours, list) and isinstance(own, list):
        return [*ours, *own]
    if isinstance(ours, Mapping | list) and own is not None:
        raise TemplateInvalid(f"{where}: the bundle has a {'mapping' if isinstance(ours, Mapping) else 'list'} here.")
    return own


def _is_function(value: Any) -> bool:
    """Whether it is a call of CloudFormation's, `{"Ref": …}` and the like, which is a value and not a mapping."""
    return (
        isinstance(value, Mapping)
        and len(value) == 1
        and (next(iter(value)) in ("Ref", "Condition") or next(iter(value)).startswith("Fn::"))
    )


def write_template(app: App) -> Path:
    """Write the merged template beside the artifacts, for SAM."""
    template = merged_template(app)
    app.generated.mkdir(exist_ok=True)
    path = app.generated / "template.json"
    path.write_text(json.dumps(template, indent=1), encoding="utf-8")
    return path
