"""What a function reads from its environment, once, and what is wrong with it in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from millrace.model.queue_spec import BODY_DAYS, DEFAULT_TENANT
from millrace.model.values import dataclass


class SettingMissing(Exception):
    """A variable that the function needs is not set."""

    def __init__(self, name: str, meaning: str) -> None:
        super().__init__(f"The environment variable {name} is not set: {meaning}. template.yaml sets it.")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the tables, the large bodies and the compiled definitions are.

    The AWS SDK reads its own variables (region, credentials, AWS_ENDPOINT_URL_DYNAMODB and the like) by itself.
    """

    queue_table: str
    dead_letter_table: str
    body_bucket: str
    definitions: str = ""  #: path of the compiled definitions
    default_tenant: str = DEFAULT_TENANT  #: whose queues are meant where a call names no tenant
    log_history: bool = False  #: whether what happens to messages is recorded, for `millrace check-history`
    body_days: int = BODY_DAYS  #: days for which the bucket keeps large bodies
    #: Credentials to sign URLs with that are given out, where they are not the function's own (in the local stack).
    url_signer: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        def need(name: str, meaning: str) -> str:
            value = environment.get(name, "")
            if not value:
                raise SettingMissing(name, meaning)
            return value

        return cls(
            need("QUEUE_TABLE", "the name of the queue table"),
            need("DEAD_LETTER_TABLE", "the name of the dead-letter table"),
            need("BODY_BUCKET", "the bucket of large bodies"),
            need("DEFINITIONS", "the path of the compiled queue definitions"),
            environment.get("DEFAULT_TENANT") or DEFAULT_TENANT,
            environment.get("LOG_HISTORY") == "1",
            int(environment.get("BODY_DAYS") or BODY_DAYS),
            {
                name: environment[variable]
                for name, variable in (("access_key", "URL_ACCESS_KEY_ID"), ("secret_key", "URL_SECRET_ACCESS_KEY"))
                if environment.get(variable)
            },
        )
