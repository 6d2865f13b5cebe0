"""Where the API is and who calls it: options that every remote command takes, and its exit codes.

0  success                      4  the claim is stale: another worker has the message, or it has ended
1  refused or failed            5  the token is not valid, or lacks a scope or tenant
2  wrong usage                  6  busy, full or no answer: try again
3  not found, or no message
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from millrace.cli.local import find_local

if TYPE_CHECKING:
    from millrace.client import Client


DEFAULT_URL = "http://127.0.0.1:8080"


class Exit(IntEnum):
    """Exit codes that a script can tell apart."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    STALE = 4
    DENIED = 5
    NOT_NOW = 6


class CliError(click.ClickException):
    """A failure with its own exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = code


@dataclass(frozen=True, slots=True)
class ApiConnection:
    """What a command needs to call the API."""

    url: str
    token: str
    tenant: str | None
    output: str

    @property
    def as_json(self) -> bool:
        return self.output == "json"

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client whose failures end the command with the right exit code."""
        import httpx

        from millrace.client import AccessDenied, Busy, CallFailed, ClaimLost, Client, ResourceNotFound, Unreachable

        codes: list[tuple[type[CallFailed], Exit]] = [
            (ClaimLost, Exit.STALE),
            (ResourceNotFound, Exit.NOTHING),
            (AccessDenied, Exit.DENIED),
            (Busy, Exit.NOT_NOW),
        ]
        try:
            with Client(self.url, self.token, tenant=self.tenant) as client:
                yield client
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise CliError(f"MILLRACE_URL or MILLRACE_TOKEN cannot be sent: {error}.", Exit.USAGE) from error
        except Unreachable as error:
            raise CliError(f"{error} {self._reach()}", Exit.NOT_NOW) from error
        except CallFailed as error:
            code = next((code for kind, code in codes if isinstance(error, kind)), Exit.FAILED)
            raise CliError(str(error), code) from error

    def _reach(self) -> str:
        """What to do where nobody answers."""
        local = find_local()
        if local is not None and self.url == local.url:
            return f"{self.url} comes from {local.home}: is the local stack running? Start it with `millrace dev`."
        return f"Is {self.url} right? Set MILLRACE_URL, or start a local stack with `millrace dev`."


def api_url() -> str:
    """The API's address: of the environment, else of the folder's local stack."""
    local = find_local()
    return os.environ.get("MILLRACE_URL") or (local.url if local else DEFAULT_URL)


def connection_of(url: str | None, token: str | None, tenant: str | None, output: str) -> ApiConnection:
    """What was given, else what the folder's local stack says. A local token goes to no other address."""
    local = find_local()
    address, token = url or api_url(), token or os.environ.get("MILLRACE_TOKEN")
    if not token and local is not None and address == local.url:
        token = local.token
    if not token:
        raise CliError(
            "No token: set MILLRACE_TOKEN (make one with `millrace tokens create`), or start a local stack with "
            "`millrace dev`.",
            Exit.DENIED,
        )
    return ApiConnection(address, token, tenant, output)


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        envvar="MILLRACE_OUTPUT",
        show_default=True,
        help="A table for people, JSON for programs.",
    )(command)


def remote(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its connection as the first argument."""

    @click.option("--url", envvar="MILLRACE_URL", help="The API; default: that of the folder's local stack.")
    @click.option("--token", envvar="MILLRACE_TOKEN", help="Bearer token; safer in MILLRACE_TOKEN, or in .local.")
    @click.option("--tenant", envvar="MILLRACE_TENANT", help="Tenant, for tokens with access to several.")
    @output_option
    @wraps(command)
    def connected(url: str | None, token: str | None, tenant: str | None, output: str, **given: Any) -> Any:
        return command(connection_of(url, token, tenant, output), **given)

    return connected
