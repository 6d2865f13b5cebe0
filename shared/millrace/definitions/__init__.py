"""Queue definitions as the functions use them: load the compiled JSON, look up a queue or a webhook.

The language itself (grammar, checks, compiler, formatter) is `millrace.definitions.language`, which nothing at run
time imports.
"""

from millrace.definitions.expression import Expression
from millrace.definitions.loading import Definitions, load
from millrace.definitions.message_type import RecordType, TypeProblem
from millrace.definitions.model import (
    HmacSettings,
    QueueDefinition,
    ScheduleDefinition,
    SecretKind,
    SecretReference,
    Target,
    TargetKind,
    WebhookDefinition,
)

__all__ = [
    "Definitions",
    "Expression",
    "HmacSettings",
    "QueueDefinition",
    "RecordType",
    "ScheduleDefinition",
    "SecretKind",
    "SecretReference",
    "Target",
    "TargetKind",
    "TypeProblem",
    "WebhookDefinition",
    "load",
]
