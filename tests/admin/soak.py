"""`python -m tests.admin.soak`: a replay job of 5,000 dead letters, killed twice: each replayed exactly once."""

from __future__ import annotations

import argparse
import os

from infra.local.dynamodb import CREDENTIALS, REGION, DynamoDbLocal
from millrace.stores.dynamodb.tables import create_tables
from tests.admin.job_process import TABLES
from tests.admin.killing import prove


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=5_000)
    count = parser.parse_args().dead_letters
    os.environ.update(CREDENTIALS)
    with DynamoDbLocal() as engine:
        create_tables(TABLES, endpoint_url=engine.url, region=REGION)
        took = prove(engine.url, "soak", count)
    print(f"{count} dead letters, the job killed twice and taken over: each replayed exactly once, in {took:.0f} s.")


if __name__ == "__main__":
    main()
