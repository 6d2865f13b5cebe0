"""`python infra/translation.py`: template.yaml as CloudFormation sees it, as JSON, by SAM's own translator.

Runs in any environment that has aws-sam-translator and PyYAML; needs neither credentials nor a network.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml
from samtranslator.translator.transform import transform

PATH = Path(__file__).parents[1] / "template.yaml"


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
    """The template without its transform; parameters stay references."""
    template = yaml.load(path.read_text("utf-8"), Loader=_Loader)  # noqa: S506 (a safe loader with more tags)
    # As `sam package` leaves it: the translator wants an address in S3, and a region.
    template["Globals"]["Function"]["CodeUri"] = {"Bucket": "artifacts", "Key": "artifact.zip"}
    os.environ["AWS_DEFAULT_REGION"] = "eu-west-1"
    written: dict[str, Any] = transform(template, {}, _NoManagedPolicies())
    return written


class _NoManagedPolicies:
    """Stands for IAM, which knows the managed policies; no role here uses one."""

    def load(self) -> dict[str, str]:
        return {}


if __name__ == "__main__":
    json.dump(translated(), sys.stdout, indent=1)
