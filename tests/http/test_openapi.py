"""The OpenAPI document of any table of routes: one name for one schema, parameters shared where they are the same."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.http.fields import Text
from millrace.http.openapi import openapi
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import record, text


def test_two_schemas_of_one_name_are_refused() -> None:
    def route(number: int, member: str) -> Route[Any]:
        reply = RouteReply("x", record("Same", {member: text()}))
        return Route("GET", f"/{number}", f"n{number}", "x", "x.", lambda _s, _r: HttpResponse(200), {200: reply}, ())

    with pytest.raises(ValueError, match="Two schemas are called Same"):
        openapi("x", "x", "1", {}, [route(1, "a"), route(2, "b")])


def test_a_parameter_is_shared_only_where_it_is_the_same() -> None:
    def route(number: int, most: int) -> Route[Any]:
        query = {"wide": Text(most), "same": Text(5)}
        replies = {200: RouteReply("x")}
        handle = lambda _s, _r: HttpResponse(200)  # noqa: E731
        return Route("GET", f"/{number}", f"n{number}", "x", "x.", handle, replies, (), query=query)

    found = openapi("x", "x", "1", {}, [route(1, 7), route(2, 8)])
    assert list(found["components"]["parameters"]) == ["same"]
    wide, same = found["paths"]["/2"]["get"]["parameters"]
    assert (wide["schema"]["maxLength"], same) == (8, {"$ref": "#/components/parameters/same"})


def test_an_answer_that_several_routes_give_is_shared_under_what_it_says() -> None:
    def route(number: int, member: str) -> Route[Any]:
        schema = record(f"Thing{member}", {member: text()})
        replies = {200: RouteReply("The thing: as it is.", schema)}
        return Route("GET", f"/{number}", f"n{number}", "x", "x.", lambda _s, _r: HttpResponse(200), replies, ())

    found = openapi("x", "x", "1", {}, [route(1, "a"), route(2, "a"), route(3, "b")])
    given = [found["paths"][path]["get"]["responses"]["200"] for path in ("/1", "/2", "/3")]
    assert given[:2] == [{"$ref": "#/components/responses/Thing"}] * 2
    assert found["components"]["responses"]["Thing"]["description"] == given[2]["description"]
    assert given[2]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Thingb"}
