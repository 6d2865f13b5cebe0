"""The engines of the tests: one of each kind for a whole run, started when a test first asks for it.

Tests run side by side in worker processes of pytest-xdist, and any of them may end first: so the process that
started them holds the engines, and the workers ask it. Measurements and long proofs are programs of their own and
have an engine of their own, from `own_engine`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Listener
from unittest import mock

from infra.local.dynamodb import CREDENTIALS, REGION, DynamoDbLocal
from infra.local.engine_process import EngineMissing, EngineProcess
from infra.local.ministack import MiniStack
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.tables import create_tables

KINDS: dict[str, Callable[[], EngineProcess]] = {
    "dynamodb": DynamoDbLocal,
    "ministack": lambda: MiniStack(services=("dynamodb", "s3")),
}
#: The socket on which the process that holds the engines answers.
ADDRESS = "MILLRACE_TEST_ENGINES"


class SharedEngines:
    """Holds the engines of a run and says where they listen, by a thread that ends with the run.

    The thread starts them as well: the kernel ends an engine with the thread that started it.
    """

    def __init__(self) -> None:
        self._listener = Listener(family="AF_UNIX")
        self._running: dict[str, EngineProcess] = {}
        self._thread = threading.Thread(target=self._serve, name="engines", daemon=True)
        self._thread.start()
        self.address = str(self._listener.address)

    def stop(self) -> None:
        _ask(self.address, "")
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.ExitStack() as engines:
            while True:
                with self._listener.accept() as asking:
                    kind = asking.recv()
                    asking.send(self._started(kind, engines) if kind else ("", ""))
                if not kind:
                    return

    def _started(self, kind: str, engines: contextlib.ExitStack) -> tuple[str, str]:
        """Where the engine listens, or why there is none."""
        try:
            if kind not in self._running:
                self._running[kind] = engines.enter_context(KINDS[kind]())
        except EngineMissing as missing:
            return "", str(missing)
        return self._running[kind].url, ""


def shared_engine(kind: str) -> str:
    """Where the run's engine of this kind listens. Raises EngineMissing, which says how to bring it."""
    url, missing = _ask(os.environ[ADDRESS], kind)
    if missing:
        raise EngineMissing(missing)
    return url


def _ask(address: str, kind: str) -> tuple[str, str]:
    with Client(address, family="AF_UNIX") as connection:
        connection.send(kind)
        answer: tuple[str, str] = connection.recv()
        return answer


def use_local_credentials() -> None:
    """Keep boto3 from looking for real credentials, whatever the machine has."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(CREDENTIALS)


@contextlib.contextmanager
def own_engine(*tables: TableNames, stream: bool = False) -> Iterator[str]:
    """Where a DynamoDB Local of one's own listens, with these tables: ended with the block."""
    with mock.patch.dict(os.environ), DynamoDbLocal() as engine:
        use_local_credentials()
        for names in tables:
            create_tables(names, endpoint_url=engine.url, region=REGION, stream=stream)
        yield engine.url
