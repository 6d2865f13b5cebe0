"""What only the ingress refuses.

MillraceError
├── InvalidRequest
│   └── MalformedCall         not an HTTP call as API Gateway hands it over
├── UnknownWebhook            no webhook of that name, or not a path of ours
├── MethodNotAllowed          a webhook takes POST, and GET only where its provider asks a question with it
└── CommandFailed             a synchronous webhook's command did not succeed: a fault of ours
"""

from __future__ import annotations

from millrace.model.errors import InvalidRequest, MillraceError


class MalformedCall(InvalidRequest):
    """The call cannot be read."""


class UnknownWebhook(MillraceError):
    """No webhook has that address."""

    code = "unknown_webhook"

    def __init__(self) -> None:
        super().__init__("There is no webhook at this address.")


class MethodNotAllowed(MillraceError):
    """A webhook is called with POST."""

    code = "method_not_allowed"

    def __init__(self) -> None:
        super().__init__("A webhook is called with POST.")


class CommandFailed(MillraceError):
    """The command of a synchronous webhook did not succeed."""

    code = "internal"

    def __init__(self, command: str, cause: str) -> None:
        self.command = command
        self.cause = cause  #: the type of what was raised; its text may hold anything
        super().__init__("The command did not succeed.")
