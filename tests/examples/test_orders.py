"""The shop of `make orders`, in small: real workers, killed at steps of their handler."""

from __future__ import annotations

import pytest

from infra.local.dynamodb import REGION
from millrace.stores.dynamodb.client import dynamodb_client
from tests.examples import shop
from tests.examples.orders import run

KILLS, SEED = 6, 1


@pytest.fixture(scope="module", autouse=True)
def _table(engine_url: str) -> None:
    shop.create_table(dynamodb_client(endpoint_url=engine_url, region=REGION))


def test_every_order_is_charged_once_however_often_the_worker_is_killed(engine_url: str) -> None:
    made = run(engine_url, "with transact", KILLS, SEED)
    assert made.at_a_step > 0, "no worker was killed between its write and its ack"
    assert (made.kills, made.once, made.dead) == (KILLS, made.orders, 0)


def test_without_the_transaction_the_same_kills_charge_twice(engine_url: str) -> None:
    """What the example is for; and how we know that the kills come where they hurt."""
    made = run(engine_url, "without", KILLS, SEED)
    assert made.at_a_step > 0
    assert made.doubled > 0
    assert made.once + made.doubled == made.orders
