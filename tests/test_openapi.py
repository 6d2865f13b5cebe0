"""The OpenAPI document: what is checked in is what the code says, named, exemplified and small."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from millrace.admin.api import ROUTES as ADMIN_ROUTES
from millrace.http.fields import Record
from millrace.http.openapi import written
from millrace.http.routes import Route
from millrace.openapi import TAGS, V1_ROUTES, document, serve_document

CHECKED_IN = Path("infra/openapi.json")
ROUTES: tuple[Route[Any], ...] = (*V1_ROUTES, *ADMIN_ROUTES)
BODIES = [route.body for route in ROUTES if route.body is not None]


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for operation in methods.values():
            yield path, operation


def test_the_checked_in_document_is_current_and_small() -> None:
    assert CHECKED_IN.read_text() == written(document()), "run `millrace openapi -o infra/openapi.json`"
    served = serve_document(None, None).to_event("c")["body"]  # type: ignore[arg-type]
    assert json.loads(served) == document()
    assert len(served.encode()) < 120_000


def test_each_route_exists_once() -> None:
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)
    described = [(operation["operationId"], path) for path, operation in operations()]
    assert sorted(described) == sorted((route.name, route.path) for route in ROUTES)
    assert {path.split("/")[1] for path, _ in operations()} == {"v1", "admin"}


def test_each_operation_has_a_known_tag_its_scopes_and_a_summary_of_its_own() -> None:
    for _, operation in operations():
        assert set(operation["tags"]) <= TAGS.keys()
        assert operation.get("security") == [] or operation["x-millrace-scopes"]
        assert operation["summary"].endswith(".")
    assert {tag for _, operation in operations() for tag in operation["tags"]} == TAGS.keys()


def test_every_refusal_is_a_described_shared_response() -> None:
    shared = document()["components"]["responses"]
    for path, operation in operations():
        refusals = {status: reply for status, reply in operation["responses"].items() if status >= "4"}
        assert {"400", "404", "500"} <= refusals.keys(), path
        assert "405" not in refusals, "no operation answers so: it is what a path answers that has no such operation"
        assert all(reply["$ref"].rsplit("/", 1)[1] in shared for reply in refusals.values()), path
        if "security" not in operation:
            assert {"401", "403", "503"} <= refusals.keys(), path
    assert "405" in document()["info"]["description"]
    assert all(response["description"] for response in shared.values())


def _refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [value["$ref"]] if "$ref" in value else [ref for inner in value.values() for ref in _refs(inner)]
    return [ref for inner in value for ref in _refs(inner)] if isinstance(value, list) else []


def test_every_reference_leads_somewhere_and_every_component_is_used() -> None:
    components = document()["components"]
    refs = {tuple(ref.split("/")[2:]) for ref in _refs(document())}
    kinds = ("schemas", "parameters", "responses", "headers")
    assert refs == {(kind, name) for kind in kinds for name in components[kind]}


def test_objects_are_named_not_inlined() -> None:
    """A body or an answer that is an object has a name, so that generated code has a class for it."""
    for path, operation in operations():
        shared = document()["components"]["responses"]
        given = [reply for status, reply in operation["responses"].items() if status < "4"]
        replies = [shared[reply["$ref"].rsplit("/", 1)[1]] if "$ref" in reply else reply for reply in given]
        for content in [operation.get("requestBody", {}), *replies]:
            for media_type, described in content.get("content", {}).items():
                if media_type == "application/json" and path != "/v1/openapi.json":
                    assert list(described["schema"]) == ["$ref"], path


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.name)
def test_each_request_body_has_an_example_that_it_takes(body: Record) -> None:
    assert body.example is not None
    body.read("", dict(body.example))


def test_each_example_fits_its_schema() -> None:
    whole = document()
    for name, schema in whole["components"]["schemas"].items():
        for example in schema.get("examples", []):
            resolved = {**schema, "components": whole["components"]}
            jsonschema.Draft202012Validator(resolved).validate(example), name


def test_descriptions_are_plain_sentences() -> None:
    riddles = re.compile(r"\b(It is so|befell|deed|letter in hand|unless told|turned away)\b")
    assert riddles.search(CHECKED_IN.read_text()) is None
