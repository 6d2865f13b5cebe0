"""The KMS keys of an app's encrypted queues in its local stack: made where they are missing, kept with its data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from infra.local.dynamodb import REGION
from infra.local.places import Places
from millrace.model.queue_spec import TENANT_MARK


def key_names(compiled: dict[str, Any], default_tenant: str) -> Iterator[str]:
    """The key of every encrypted queue, for each tenant that is known ahead: the default one and those declared."""
    for queue in compiled["queues"].values():
        for tenant in (default_tenant, *compiled["tenants"]):
            if queue["spec"]["encrypt"]:
                yield queue["spec"]["encrypt"].replace(TENANT_MARK, tenant)


def make_keys(places: Places) -> list[str]:
    """Make a key for each alias that has none. What is named by an ARN lies in AWS, and is not to be had here."""
    compiled = json.loads(places.app.definitions.read_text("utf-8"))
    names = list(dict.fromkeys(key_names(compiled, places.default_tenant)))
    elsewhere = [name for name in names if name.startswith("arn:")]
    if len(names) > len(elsewhere):
        import boto3

        kms = boto3.client("kms", endpoint_url=places.s3_url, region_name=REGION)
        pages = kms.get_paginator("list_aliases").paginate()
        there = {alias["AliasName"] for page in pages for alias in page["Aliases"]}
        for name in names:
            if name not in there and name not in elsewhere:
                key = kms.create_key(Description=f"Millrace: {name}")["KeyMetadata"]["KeyId"]
                kms.create_alias(AliasName=name, TargetKeyId=key)
    return elsewhere
