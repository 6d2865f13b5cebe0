"""Transactions for an app of one's own, on the tables that its environment names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from millrace.admission.transaction import Transaction
from millrace.aws.runtime import aws_runtime, deployed_definitions
from millrace.aws.session import session_client
from millrace.aws.settings import Settings

if TYPE_CHECKING:
    from millrace.definitions import Definitions
    from millrace.engine.queue import Runtime


class Transactions:
    """Makes transactions. Made once a process: credits and connections are shared."""

    def __init__(self, runtime: Runtime, definitions: Definitions, tenant: str) -> None:
        self._runtime = runtime
        self._definitions = definitions
        self._tenant = tenant

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], tenant: str = "") -> Transactions:
        """QUEUE_TABLE, DEAD_LETTER_TABLE, BODY_BUCKET and DEFINITIONS, as the functions have them.

        Region and credentials are those that the SDK finds: a role, a profile. Raises SettingMissing.
        """
        settings = Settings.from_environment(environment)
        client = session_client(environment.get("AWS_REGION"), environment.get("AWS_ENDPOINT_URL_DYNAMODB"))
        runtime = aws_runtime(settings, client)
        return cls(runtime, deployed_definitions(settings), tenant or settings.default_tenant)

    def __call__(self) -> Transaction:
        """A new transaction, to be used as a context manager."""
        return Transaction(self._runtime, self._definitions, self._tenant)
