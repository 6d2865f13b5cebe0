"""Routes at work, without a store: found once, checked by their declaration, refused truthfully."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.http.fields import Record, Text, Whole
from millrace.http.problems import MethodNotAllowed
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Api, Route, RouteReply, find
from millrace.model.errors import NotFound
from millrace.model.tokens import Scope


def echo(service: list[ApiRequest], request: ApiRequest) -> HttpResponse:
    service.append(request)
    return HttpResponse(200, {"seen": True})


def broken(_service: Any, _request: ApiRequest) -> HttpResponse:
    raise RuntimeError("secret details")


def route(method: str, path: str, name: str, **more: Any) -> Route[list[ApiRequest]]:
    given = {"scopes": (Scope.READ,), "handle": echo, **more}
    return Route(method, path, name, "test", "A test.", replies={200: RouteReply("x")}, **given)


ROUTES = (
    route("GET", "/items/{id}", "show", query={"limit": Whole(1, 9)}, headers={"X-Extra": Text(5)}),
    route("DELETE", "/items/{id}", "delete"),
    route("POST", "/items/batch", "batch", body=Record({"a": Text(3)}, required=("a",))),
    route("GET", "/open", "open", scopes=()),
    route("GET", "/either", "either", scopes=(Scope.CONSUME, Scope.READ)),
    route("GET", "/broken", "broken", scopes=(), handle=broken),
)


def ask(method: str, path: str, *, scopes: str = "read", query: str = "", **event: Any) -> tuple[Any, list[ApiRequest]]:
    seen: list[ApiRequest] = []
    principal = {"token_id": "t", "name": "n", "scopes": scopes, "tenants": "acme"}
    context = {"http": {"method": method, "sourceIp": "192.0.2.1"}, "authorizer": {"lambda": principal}}
    given = {"rawPath": path, "rawQueryString": query, "requestContext": context, **event}
    return Api(seen, ROUTES).handle(given), seen


def code(answer: Any) -> tuple[int, str]:
    return answer["statusCode"], json.loads(answer["body"])["code"]


def test_a_handler_gets_what_its_route_declares() -> None:
    answer, (request,) = ask("GET", "/items/a%20b", query="limit=3", headers={"x-extra": "hi", "x-other": "no"})
    assert answer["statusCode"] == 200
    assert (request.path, request.query, request.headers) == ({"id": "a b"}, {"limit": 3}, {"X-Extra": "hi"})
    assert (request.tenant, request.principal.name, request.source_ip) == ("acme", "n", "192.0.2.1")
    assert request.page == {"limit": 3}


def test_a_path_that_is_named_outright_is_not_taken_for_a_parameter() -> None:
    assert find(ROUTES, "POST", "/items/batch")[0].name == "batch"
    with pytest.raises(MethodNotAllowed):
        find(ROUTES, "GET", "/items/batch")


@pytest.mark.parametrize(("path", "allowed"), [("/items/7", "DELETE, GET"), ("/items/batch", "POST"), ("/open", "GET")])
def test_allow_names_the_methods_that_the_path_has_and_no_others(path: str, allowed: str) -> None:
    answer, _ = ask("PATCH", path)
    assert code(answer) == (405, "method_not_allowed")
    assert answer["headers"]["Allow"] == allowed
    for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        answered = ask(method, path)[0]["statusCode"]
        assert (answered == 405) == (method not in allowed.split(", ")), method


def test_an_unknown_path_is_not_found() -> None:
    with pytest.raises(NotFound):
        find(ROUTES, "GET", "/items/7/8")
    assert code(ask("GET", "/nothing")[0]) == (404, "not_found")


def test_one_of_a_routes_scopes_is_needed() -> None:
    told = {scopes: ask("GET", "/either", scopes=scopes)[0]["statusCode"] for scopes in ("read", "consume", "enqueue")}
    assert told == {"read": 200, "consume": 200, "enqueue": 403}
    assert ask("GET", "/open", scopes="")[0]["statusCode"] == 200
    assert code(ask("GET", "/either", requestContext={"http": {"method": "GET"}})[0]) == (401, "unauthorised")


@pytest.mark.parametrize(
    ("query", "field"), [("limit=10", "limit"), ("limits=1", "limits"), ("tenant_id=a%23b", "tenant_id")]
)
def test_a_query_is_checked_by_its_declaration(query: str, field: str) -> None:
    answer, seen = ask("GET", "/items/7", query=query)
    assert (answer["statusCode"], json.loads(answer["body"])["field"], seen) == (400, field, [])


def test_another_tenant_is_forbidden() -> None:
    assert code(ask("GET", "/items/7", query="tenant_id=other")[0]) == (403, "forbidden")


@pytest.mark.parametrize("body", ['{"a": "long"}', "{}", "[]", '{"a": "x", "b": 1}'])
def test_a_body_is_checked_by_its_declaration(body: str) -> None:
    answer, seen = ask("POST", "/items/batch", body=body)
    assert (answer["statusCode"], seen) == (400, [])


def test_a_fault_of_ours_shows_nothing_of_itself() -> None:
    answer, _ = ask("GET", "/broken", headers={"X-Correlation-Id": "c-1"})
    assert code(answer) == (500, "internal")
    assert "secret" not in answer["body"]
    assert answer["headers"]["X-Correlation-Id"] == json.loads(answer["body"])["correlation_id"] == "c-1"


def test_the_correlation_id_is_normalised_once_for_handler_and_answer() -> None:
    answer, (request,) = ask("GET", "/items/7", headers={"X-Correlation-Id": "bad\nid"})
    assert answer["headers"]["X-Correlation-Id"] == request.correlation_id
    assert "\n" not in request.correlation_id
