"""A store of secrets that counts its calls, and what is signed with what it holds."""

from __future__ import annotations

import traceback

from millrace.signatures import (
    Secret,
    preset,
)
from millrace.signatures.request import WebhookRequest
from millrace.signatures.secrets import SecretMissing, StoreSilent
from tests.signatures.cases import delivery

GITHUB = preset("github")


MINUTE = 60_000


HIDDEN = "hunter2-hunter2"


class Store:
    """A place for secrets that counts its calls."""

    def __init__(self, **values: str) -> None:
        self.values, self.calls, self.down = values, 0, False

    def __call__(self, name: str) -> str:
        self.calls += 1
        if self.down:
            raise StoreSilent
        if name not in self.values:
            raise SecretMissing
        return self.values[name]


REFERENCE = ["secretsmanager:hook"]


def signed_with(value: str) -> WebhookRequest:
    return delivery(GITHUB, secret=Secret("sender", value))


def assert_hidden(error: BaseException) -> None:
    """The secret is in no text, attribute or context of an error."""
    seen: BaseException | None = error
    while seen is not None:
        shown = [str(seen), repr(seen), repr(seen.args), repr(vars(seen)), getattr(seen, "doc", "")]
        assert HIDDEN not in "".join(map(str, shown))
        seen = seen.__cause__ or seen.__context__
    assert HIDDEN not in "".join(traceback.format_exception(error))
