"""Errors as problem documents: one table of statuses, and nothing shown of what is not ours."""

from __future__ import annotations

import pytest

from millrace.http.problems import (
    PROBLEM,
    STATUSES,
    Forbidden,
    InvalidClaim,
    MethodNotAllowed,
    TooManyWaiting,
    Unauthorised,
    problem,
)
from millrace.model.errors import InvalidField, MillraceError, StaleClaim, StoreUnavailable


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Unauthorised(), 401, "unauthorised"),
        (Forbidden("scope read"), 403, "forbidden"),
        (MethodNotAllowed("PUT", ("GET",)), 405, "method_not_allowed"),
        (TooManyWaiting("Jobs", 9), 429, "too_many_waiting"),
        (InvalidClaim(), 400, "invalid_request"),
        (InvalidField("a", "is missing", "a value"), 400, "invalid_field"),
        (StoreUnavailable("table t: throttled"), 503, "store_unavailable"),
        (RuntimeError("secret"), 500, "internal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_has_one_status_and_code(error: Exception, status: int, code: str) -> None:
    found = problem(error, "c-1")
    assert (found.status, found.document["code"], found.document["status"]) == (status, code, status)
    assert found.document["correlation_id"] == found.headers["X-Correlation-Id"] == "c-1"
    assert set(PROBLEM["required"]) <= found.document.keys()


@pytest.mark.parametrize("error", [RuntimeError("secret"), StoreUnavailable("table secret")])
def test_what_is_for_the_log_is_not_shown(error: Exception) -> None:
    assert "secret" not in problem(error, "c").body


def test_particulars_are_for_programs() -> None:
    assert problem(StaleClaim("m", 1, 2), "c").document["current_version"] == 2
    refused = problem(InvalidField("a.b", "is missing", "a value"), "c").document
    assert (refused["field"], refused["allowed"]) == ("a.b", "a value")
    assert problem(MethodNotAllowed("PUT", ("GET", "POST")), "c").headers["Allow"] == "GET, POST"
    assert problem(TooManyWaiting("Jobs", 9, 4), "c").headers["Retry-After"] == "4"


def test_a_code_without_a_status_is_a_fault_of_ours() -> None:
    class Unmapped(MillraceError):
        code = "unmapped"

    assert (problem(Unmapped("x"), "c").status, "unmapped" in STATUSES) == (500, False)
