"""`python -m tests.admin.soak`: a replay job of 5,000 dead letters, killed twice: each replayed exactly once."""

from __future__ import annotations

import argparse

from tests.admin.killing import prove
from tests.conftest import TABLES
from tests.engines import own_engine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dead-letters", type=int, default=5_000)
    count = parser.parse_args().dead_letters
    with own_engine(TABLES) as url:
        took = prove(url, "soak", count)
    print(f"{count} dead letters, the job killed twice and taken over: each replayed exactly once, in {took:.0f} s.")


if __name__ == "__main__":
    main()
