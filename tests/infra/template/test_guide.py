"""The guide's examples are whole: each is joined with the bundle's template, translated by SAM and linted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from infra.local.dynamodb import ROOT
from infra.local.ministack import find_ministack
from millrace.app.template import write_template
from tests.app.apps import make

GUIDE = (ROOT / "infra" / "GUIDE.md").read_text("utf-8")
BLOCK = re.compile(r"^```(yaml|toml)\n# (\S+)\n(.*?)^```$", re.M | re.S)
WORKFLOW = ".github/workflows/ci.yml"
#: Broken so that the translator finds it, and so that only cfn-lint does, on the joined template.
BROKEN = {
    "a property that SAM does not know": "Resources: { WorkerFunction: { Properties: { Layer: [] } } }",
    "a reference to nothing": "Resources: { WorkerFunction: { Properties: { Layers: [!Ref Nothing] } } }",
}


class Example(NamedTuple):
    """A template out of the guide."""

    name: str
    file: str
    text: str


def examples() -> Iterator[Example]:
    """Every template of the guide, named by its heading."""
    for heading, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", GUIDE, re.M | re.S):
        found = [(file, text) for kind, file, text in BLOCK.findall(text) if kind == "yaml" and file != WORKFLOW]
        for number, (file, written) in enumerate(found, 1):
            yield Example(f"{heading} {number}", file, written)


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What SAM and cfn-lint say against each example, the broken ones too. One call each: starting takes longest."""
    folder = tmp_path_factory.mktemp("guide")
    tried = [*examples(), *(Example(name, "template.yaml", text) for name, text in BROKEN.items())]
    paths = []
    for number, (_, file, text) in enumerate(tried):
        app = make(folder / str(number), {file: text, "layers/fonts/one.ttf": ""})
        paths.append(write_template(app) if file == "template.yaml" else app.root / file)
    translate = [find_ministack().with_name("python"), ROOT / "infra" / "translation.py", *paths]
    translated = json.loads(subprocess.run(translate, capture_output=True, check=True).stdout)
    found: dict[str, list[str]] = {}
    files: dict[str, str] = {}
    for example, outcome in zip(tried, translated, strict=True):
        found[example.name] = [outcome] if isinstance(outcome, str) else []
        if not isinstance(outcome, str):
            path = folder / f"{len(files)}.json"
            path.write_text(json.dumps(outcome))
            files[str(path)] = example.name
    # W1030 takes an empty default of a parameter for a value; a condition leaves out what would use it.
    program = str(Path(sys.executable).with_name("cfn-lint"))
    lint = [program, "--format", "json", "--ignore-checks", "W1030", "--", *files]
    for match in json.loads(subprocess.run(lint, capture_output=True, check=False).stdout):
        found[files[match["Filename"]]].append(f"{match['Rule']['Id']} {match['Message']}")
    return found


def test_the_guide_has_an_example_for_each_subject() -> None:
    assert len(list(examples())) == 8
    assert len(BLOCK.findall(GUIDE)) == len(re.findall(r"^```(?:yaml|toml)$", GUIDE, re.M)), "a block without its file"


@pytest.mark.parametrize("name", [example.name for example in examples()])
def test_an_example_translates_and_lints(name: str, problems: dict[str, list[str]]) -> None:
    assert problems[name] == []


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_example_is_found(name: str, problems: dict[str, list[str]]) -> None:
    assert problems[name]


def test_the_settings_in_the_guide_are_toml() -> None:
    for kind, file, text in BLOCK.findall(GUIDE):
        if kind == "toml":
            assert file == "samconfig.toml"
            assert all("parameters" in stage["deploy"] for stage in tomllib.loads(text).values())


def test_the_workflow_in_the_guide_is_the_one_of_a_new_app() -> None:
    (shown,) = (text for _, file, text in BLOCK.findall(GUIDE) if file == WORKFLOW)
    written = (ROOT / "infra" / "example" / WORKFLOW).read_text("utf-8")
    assert yaml.safe_load(shown) == yaml.safe_load(written)
