"""The minimal client with whatever credentials the SDK finds: for places whose environment holds none."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import boto3

from millrace.stores.dynamodb.minimal_client import Credentials, minimal_client

if TYPE_CHECKING:
    from millrace.stores.dynamodb.client import AnyClient


def session_client(region: str | None = None, endpoint_url: str | None = None) -> AnyClient:
    """A client for a Spark executor or a laptop: region and credentials from a profile, a role or the environment."""
    session = boto3.Session(region_name=region)
    environment = {**os.environ, "AWS_REGION": session.region_name or ""}
    if endpoint_url:
        environment["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint_url
    return minimal_client(environment, _credentials(session))


def _credentials(session: boto3.Session) -> Callable[[], Credentials] | None:
    """The role's credentials, renewed by the SDK before they run out."""
    found = session.get_credentials()
    if found is None:
        return None

    def current() -> Credentials:
        frozen = found.get_frozen_credentials()
        return Credentials(frozen.access_key or "", frozen.secret_key or "", frozen.token or "")

    return current
