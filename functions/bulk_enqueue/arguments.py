"""The job's options, and which of them an action needs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from millrace.model.message import DeadLetterReason
from millrace.model.queue_spec import DEFAULT_TENANT
from millrace.model.replay_windows import ReplayOf
from millrace.spark.rows import MESSAGE_FIELDS
from millrace.spark.sources import FILES, Format

ACTIONS = {
    "enqueue": "every row of a source becomes a message, once",
    "derive": "a folder of markdown work items is the truth; enqueue what became ready",
    "replay": "enqueue dead letters, or messages of any time (--of), again, once for each run",
    "reconcile": "say of every row of a source where its message is",
    "report": "one HTML page of what came, how long it took, what failed and what it cost, from the lake or the tables",
    "lake": "keep Parquet of every message and how it ended, from exports to S3 or the tables",
}
#: Those read the tables where they are not told otherwise.
_OF_TABLES = ("replay", "lake", "report")
#: Glue hands its own settings to the script as well, whatever the script makes of them.
_GLUE = re.compile(
    r"--(JOB_|RedirectTempDir|TempDir|SECURITY_CONFIGURATION|extra-|additional-python|enable-|job-|continuous-log|"
    r"conf$|class$|scriptLocation|spark-event-logs|python-modules|datalake-formats|encryption-type|user-jars|"
    r"worker-type|number-of-workers|execution-class|customer-)"
)


def parser_for() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="job.py",
        description="Bulk work on a Millrace queue.",
        epilog="actions: " + "; ".join(f"{name}: {meaning}" for name, meaning in ACTIONS.items()) + ".",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--action", choices=tuple(ACTIONS), default="enqueue")
    add("--queue", default="", help="the queue's name in the definitions; a lake holds every queue, a report shows all")
    add("--tenant", default=DEFAULT_TENANT, help="whose queue, where a row does not say")
    add("--source", help="what to read: files or a folder; for replay and lake exports to S3 instead of the tables")
    add("--table", help="a table instead of files: catalog.db.name, whatever the session's catalogs hold")
    add("--sql", help="the rows of a query instead of files")
    add("--format", choices=[kind.value for kind in FILES], default=Format.JSON_LINES.value)
    add("--report", required=True, help="where outcomes, rejects and the summary go, under the run's name")
    add("--run", type=_run, help="names the run; give the name of a broken-off run to go on with it")
    add("--definitions", help="compiled definitions; else those of the package")
    tables = parser.add_argument_group("tables")
    tables.add_argument("--queue-table", required=True)
    tables.add_argument("--dead-letter-table", required=True)
    tables.add_argument("--body-bucket", required=True, help="where large bodies go")
    tables.add_argument("--region")
    tables.add_argument("--dynamodb-endpoint", help="another DynamoDB, such as DynamoDB Local")
    tables.add_argument("--s3-endpoint")
    fields = parser.add_argument_group("fields", "a column, a path into a document (incident.id), or any Spark SQL")
    for name in MESSAGE_FIELDS:
        option = "tenant-of-row" if name == "tenant" else name.replace("_", "-")
        fields.add_argument(f"--{option}", dest=f"field_{name}", metavar="EXPRESSION")
    pace = parser.add_argument_group("pace")
    pace.add_argument(
        "--units-per-second", type=_positive, help="write units of the whole run (lake: read units); else no limit"
    )
    pace.add_argument("--rows-per-second", type=_positive, help="rows of the whole run; else no limit")
    pace.add_argument("--on-full", choices=("wait", "stop"), default="wait", help="when max_depth is reached")
    pace.add_argument("--patience", type=_positive, default=900.0, help="seconds without progress until rows fail")
    pace.add_argument("--deadline", type=_deadline, default=20.0, help="seconds that one request is repeated, up to 25")
    pace.add_argument("--threads", type=int, default=6, choices=range(1, 33), metavar="1..32", help="of each task")
    pace.add_argument("--tasks", type=int, help="how many tasks write; else by the size of the source")
    dead_letters = parser.add_argument_group("replay")
    dead_letters.add_argument("--failed-from", type=_moment, help="RFC 3339")
    dead_letters.add_argument("--failed-before", type=_moment, help="RFC 3339")
    dead_letters.add_argument("--reason", choices=[reason.value for reason in DeadLetterReason])
    dead_letters.add_argument("--error-text", default="", help="a part of the error, in any case")
    dead_letters.add_argument("--only-project")
    dead_letters.add_argument(
        "--of",
        choices=[kind.value for kind in ReplayOf],
        help=("replay messages by how they ended, from the tables, exports (--source) or the lake (--lake)"),
    )
    dead_letters.add_argument("--received-from", type=_moment, help="RFC 3339; with --of")
    dead_letters.add_argument("--received-before", type=_moment, help="RFC 3339; with --of")
    dead_letters.add_argument("--where", help="Spark SQL over the messages' columns; with --of")
    dead_letters.add_argument("--to", help="another queue that takes them; with --of")
    dead_letters.add_argument("--dry-run", **_SWITCH, help="only show what would be replayed")
    page = parser.add_argument_group("report", "also --received-from, --received-before, --where, --source, --lake")
    page.add_argument("--sla-seconds", type=_positive, default=300.0, help="a message ought to be done after so long")
    lake = parser.add_argument_group("lake")
    lake.add_argument("--lake", help="the folder that holds it: s3://bucket/lake; reconcile looks there too")
    lake.add_argument("--lake-table", help="a table of the session's catalog that shows its messages")
    add("--strict", **_SWITCH, help="exit with 1 for rejected, conflicting, missing rows")
    return parser


def read_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """What was asked for. Ends the process with what is wrong and what is allowed."""
    given = parser.parse_args(_without_glue(arguments))
    whole = "lake" if given.action == "lake" else "queue"
    if not getattr(given, whole) and given.action != "report":
        parser.error(f"--{whole} is missing: {given.action} needs it")
    named = [option for option in ("source", "table", "sql") if getattr(given, option)]
    if len(named) > 1:
        parser.error(f"--{named[0]} and --{named[1]}: one of them")
    allowed = ("source",) if given.action in ("derive", *_OF_TABLES) else ("source", "table", "sql")
    if named and named[0] not in allowed:
        parser.error(f"--{named[0]} is not for {given.action}, which reads files")
    if given.action not in _OF_TABLES and not named:
        parser.error(f"--source is missing: {given.action} reads one" + (" (or --table, --sql)" * (len(allowed) > 1)))
    if given.lake and given.action not in ("reconcile", *_OF_TABLES):
        parser.error(f"--lake is not for {given.action}")
    if given.action == "replay":
        _check_replay(parser, given)
    if given.action in ("replay", "report") and given.lake and given.source:
        parser.error("--lake and --source: one of them")
    if given.tasks is not None and given.tasks < 1:
        parser.error("--tasks: 1 or more")
    if given.dry_run and given.action != "replay":
        parser.error(f"--dry-run is for replay: {given.action} would write")
    return given


#: Which options of a replay go by failures, and which by messages.
_BY_FAILURE = ("failed_from", "failed_before", "reason", "error_text", "only_project")
_BY_MESSAGE = ("received_from", "received_before", "where", "to", "lake")


def _check_replay(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Dead letters go by their failures; messages (`--of`) by their arrival and whatever --where says."""
    wrong = [name for name in (_BY_FAILURE if given.of else _BY_MESSAGE) if getattr(given, name)]
    if wrong:
        option = f"--{wrong[0].replace('_', '-')}"
        parser.error(f"{option} is not for --of: use --where" if given.of else f"{option} needs --of")


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is no switch. Allowed: true, false")
    return text == "true"


#: May stand alone, or with its value, as Glue hands it over.
_SWITCH: Mapping[str, Any] = {"nargs": "?", "type": _switch, "const": True, "default": False}


def _run(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a run: 1 to 64 letters, digits and ._:-")
    return text


def _without_glue(arguments: Sequence[str]) -> list[str]:
    """Without what Glue adds for itself. A name that is neither ours nor Glue's stays, and is refused."""
    own: list[str] = []
    skipping = False
    for argument in arguments:
        if argument.startswith("--"):
            skipping = bool(_GLUE.match(argument))
        if not skipping and not (argument == "true" and not own):
            own.append(argument)
    return own


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range: more than 0")
    return number


def _deadline(text: str) -> float:
    """An enqueue is two requests, and gives up when they took a minute: its entry would be cleared away."""
    if not 0 < (number := float(text)) <= 25:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range: more than 0, at most 25")
    return number


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time as RFC 3339 writes it, with its offset from UTC")
    return moment
