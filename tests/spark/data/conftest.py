"""Spark and a deployment of its own for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mypy_boto3_dynamodb import DynamoDBClient

from tests.conftest import Clock
from tests.spark.data.world import World


@pytest.fixture
def world(engine_client: DynamoDBClient, engine_url: str, definitions: bytes, tmp_path: Path, clock: Clock) -> World:
    return World(engine_client, engine_url, definitions, tmp_path, clock)


MakeWorld = Callable[[int], World]
