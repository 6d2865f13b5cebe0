"""`python infra/translation.py [PATH …]`: templates as CloudFormation sees them, as JSON, by SAM's own translator.

Without a path it is template.yaml; with paths, a list of what each is, or of the sentences that say what is wrong.

Runs in any environment that has aws-sam-translator and PyYAML; needs neither credentials nor a network.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.translator.transform import transform

PATH = Path(__file__).parents[1] / "template.yaml"
#: Type of a resource → what `sam package` uploads for it.
_UPLOADED = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short functions, written out as the long ones."""


def _spelled(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        argument: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        argument = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)  # noqa: S101
        argument = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(argument, str):
        argument = argument.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": argument}


_Loader.add_multi_constructor("!", _spelled)


def translated(path: Path = PATH) -> dict[str, Any]:
    """A template without its transform; parameters stay references. Raises InvalidDocumentException."""
    template = yaml.load(path.read_text("utf-8"), Loader=_Loader)  # noqa: S506 (a safe loader with more tags)
    # As `sam package` leaves it: the translator wants an address in S3, and a region.
    for resource in template["Resources"].values():
        if found := _UPLOADED.get(resource["Type"]):
            resource["Properties"][found] = {"Bucket": "artifacts", "Key": "artifact.zip"}
    os.environ["AWS_DEFAULT_REGION"] = "eu-west-1"
    written: dict[str, Any] = transform(template, {}, _NoManagedPolicies())
    return written


class _NoManagedPolicies:
    """Stands for IAM, which knows the managed policies; no role here uses one."""

    def load(self) -> dict[str, str]:
        return {}


def _outcome(path: Path) -> dict[str, Any] | str:
    try:
        return translated(path)
    except InvalidDocumentException as error:
        return "; ".join(cause.message for cause in error.causes)


if __name__ == "__main__":
    paths = [Path(path) for path in sys.argv[1:]]
    json.dump([_outcome(path) for path in paths] if paths else translated(), sys.stdout, indent=1)
