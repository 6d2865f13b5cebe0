"""The job's options, as a person, Glue and EMR hand them over."""

from __future__ import annotations

import argparse

import pytest

from functions.bulk_enqueue.arguments import _GLUE, ACTIONS, parser_for, read_arguments
from functions.bulk_enqueue.job import _filter, _source
from millrace.model.message import DeadLetterFilter, DeadLetterReason
from millrace.spark.rows import MESSAGE_FIELDS
from millrace.spark.sources import Format

NEEDED = ["--queue", "Jobs", "--report", "s3://b/reports", "--queue-table", "q", "--dead-letter-table", "d"]
NEEDED += ["--body-bucket", "b", "--source", "s3://b/in"]


def read(*options: str) -> argparse.Namespace:
    return read_arguments(parser_for(), [*NEEDED, *options])


def refused(capsys: pytest.CaptureFixture[str], *options: str, needed: list[str] = NEEDED) -> str:
    """What the job says, on its way out with code 2."""
    with pytest.raises(SystemExit) as left:
        read_arguments(parser_for(), [*needed, *options])
    assert left.value.code == 2
    return capsys.readouterr().err


def test_the_least_that_an_enqueue_needs() -> None:
    given = read()
    assert (given.action, given.format, given.tenant, given.on_full) == ("enqueue", "jsonl", "default", "wait")
    assert (given.units_per_second, given.rows_per_second, given.threads, given.tasks) == (None, None, 6, None)
    assert (given.patience, given.dry_run, given.strict, given.run) == (900.0, False, False, None)


@pytest.mark.parametrize("missing", ["--queue", "--report", "--queue-table", "--dead-letter-table", "--body-bucket"])
def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str], missing: str) -> None:
    at = NEEDED.index(missing)
    assert missing in refused(capsys, needed=NEEDED[:at] + NEEDED[at + 2 :])


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_but_those_that_read_the_tables_reads_a_source(
    capsys: pytest.CaptureFixture[str], action: str
) -> None:
    options = [*NEEDED[:-2], "--action", action, *(["--lake", "s3://b/lake"] if action == "lake" else [])]
    if action in ("replay", "lake", "report"):
        assert read_arguments(parser_for(), options).source is None
    else:
        assert "--source is missing" in refused(capsys, needed=options)


def test_a_lake_needs_its_folder_and_no_queue(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--lake is missing" in refused(capsys, "--action", "lake")
    assert "--sql is not for lake" in refused(
        capsys, "--action", "lake", "--lake", "l", "--sql", "select 1", needed=NEEDED[:-2]
    )
    assert "--lake is not for enqueue" in refused(capsys, "--lake", "s3://b/lake")
    given = read_arguments(parser_for(), [*NEEDED[2:], "--action", "lake", "--lake", "s3://b/lake"])
    assert (given.queue, given.lake, given.source) == ("", "s3://b/lake", "s3://b/in")


# -- Glue ------------------------------------------------------------------------------------------------------------

#: As Glue 5 hands them to a script: its own settings before, between and behind the job's.
GLUE = [
    "--JOB_NAME", "nightly", "--JOB_ID", "j_1", "--JOB_RUN_ID", "jr_1", "--JOB_ATTEMPT", "0",
    "--SECURITY_CONFIGURATION", "None", "--TempDir", "s3://aws-glue/tmp", "--RedirectTempDir", "s3://t",
    "--job-language", "python", "--job-bookmark-option", "job-bookmark-disable", "--job-bookmark-from", "1",
    "--enable-metrics", "true", "--enable-metrics", "--enable-continuous-cloudwatch-log", "true",
    "--enable-job-insights", "false", "--enable-observability-metrics", "true", "--enable-spark-ui", "true",
    "--enable-auto-scaling", "true", "--enable-glue-datacatalog",
    "--continuous-log-logGroup", "/glue", "--spark-event-logs-path", "s3://logs",
    "--extra-py-files", "s3://b/millrace.zip", "--extra-jars", "s3://b/x.jar", "--extra-files", "s3://b/f",
    "--additional-python-modules", "pyarrow==15,pyyaml", "--python-modules-installer-option", "-v",
    "--datalake-formats", "delta", "--conf", "spark.task.maxFailures=8", "--class", "GlueApp",
    "--scriptLocation", "s3://b/job.py", "--encryption-type", "sse-s3", "--user-jars-first", "true",
    "--customer-driver-env-vars", "A=B", "--worker-type", "G.1X", "--number-of-workers", "4",
    "--execution-class", "FLEX",
]  # fmt: skip
OWN = ["--action", "replay", "--dry-run", "true", "--error-text", "timed out", "--strict", "false"]


@pytest.mark.parametrize(
    "arguments",
    [
        [*GLUE, *NEEDED, *OWN],
        [*NEEDED, *OWN, *GLUE],
        [*NEEDED, *GLUE, *OWN],
        ["true", *NEEDED, *OWN],
        [*GLUE[:2], *NEEDED, *GLUE[2:40], *OWN, *GLUE[40:]],
        [*NEEDED, *OWN, "--extra-py-files=s3://b/x.zip", "--JOB_NAME=n"],
    ],
    ids=["before", "behind", "between", "a stray value", "scattered", "with equals signs"],
)
def test_what_glue_adds_for_itself_is_ignored(arguments: list[str]) -> None:
    given = read_arguments(parser_for(), arguments)
    assert vars(given) == vars(read_arguments(parser_for(), [*NEEDED, *OWN]))


def test_no_option_of_the_job_is_taken_for_one_of_glues() -> None:
    options = [name for action in parser_for()._actions for name in action.option_strings if name.startswith("--")]
    assert len(options) > 30
    assert [name for name in options if _GLUE.match(name)] == []


@pytest.mark.parametrize("option", ["--sauce", "--sourc", "--queu", "--confirm", "--classes", "--glue"])
def test_a_name_that_is_neither_the_jobs_nor_glues_is_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert f"unrecognized arguments: {option} x" in refused(capsys, option, "x")


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "on"),
    [([], False), (["--strict"], True), (["--strict", "true"], True), (["--strict", "false"], False)],
)
def test_a_switch_stands_alone_or_with_its_value(options: list[str], on: bool) -> None:
    assert read(*options).strict is on
    assert read(*options, "--tasks", "3").tasks == 3


@pytest.mark.parametrize(
    "options",
    [
        ["--strict", "yes"],
        ["--strict", "True"],
        ["--action", "purge"],
        ["--format", "xml"],
        ["--units-per-second", "0"],
        ["--units-per-second", "-5"],
        ["--units-per-second", "nan"],
        ["--rows-per-second", "inf"],
        ["--rows-per-second", "many"],
        ["--patience", "0"],
        ["--deadline", "0"],
        ["--deadline", "26"],
        ["--threads", "0"],
        ["--threads", "33"],
        ["--tasks", "0"],
        ["--tasks", "1.5"],
        ["--on-full", "wait a bit"],
        ["--failed-from", "yesterday"],
        ["--failed-before", "2026-11-16T05:00:00"],
        ["--reason", "bored"],
        ["--run", ""],
        ["--run", "../elsewhere"],
        ["--run", "r" * 65],
        ["stray"],
    ],
    ids=" ".join,
)
def test_a_value_out_of_range_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert "error: " in refused(capsys, *options)


@pytest.mark.parametrize("action", ["enqueue", "derive", "reconcile"])
def test_nobody_who_asks_for_a_dry_run_gets_a_wet_one(capsys: pytest.CaptureFixture[str], action: str) -> None:
    assert "--dry-run is for replay" in refused(capsys, "--action", action, "--dry-run")
    assert read("--action", action, "--dry-run", "false").dry_run is False
    assert read("--action", "replay", "--dry-run").dry_run is True


def test_fields_become_the_sources_expressions() -> None:
    options = [
        part
        for name in MESSAGE_FIELDS
        for part in (f"--{'tenant-of-row' if name == 'tenant' else name.replace('_', '-')}", f"the.{name}")
    ]
    source = _source(read("--format", "csv", "--tenant", "acme", *options))
    assert (source.path, source.format) == ("s3://b/in", Format.CSV)
    assert source.fields == {name: f"the.{name}" for name in MESSAGE_FIELDS}
    assert _source(read()).fields == {}


def test_a_replays_filter() -> None:
    assert _filter(read("--action", "replay")) == DeadLetterFilter()
    given = read(
        *(
            "--action",
            "replay",
            "--failed-from",
            "2001-09-09T01:46:40Z",
            "--failed-before",
            "2001-09-09T03:46:41+02:00",
        ),
        *("--reason", "expired", "--error-text", "timed out", "--only-project", "billing"),
    )
    assert _filter(given) == DeadLetterFilter(
        failed_from=1_000_000_000_000,
        failed_before=1_000_000_001_000,
        reason=DeadLetterReason.EXPIRED,
        error_text="timed out",
        project="billing",
    )


def test_messages_of_any_time_go_by_their_arrival_and_dead_letters_by_their_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    replay = ("--action", "replay")
    given = read(
        *replay, "--of", "all", "--received-from", "2026-11-01T00:00:00Z", "--where", "size > 1", "--to", "Mail"
    )
    assert (given.of, given.to, given.where) == ("all", "Mail", "size > 1")
    assert "--where needs --of" in refused(capsys, *replay, "--where", "size > 1")
    assert "--reason is not for --of: use --where" in refused(capsys, *replay, "--of", "dead", "--reason", "expired")
    assert "--lake and --source" in refused(capsys, *replay, "--of", "dead", "--lake", "s3://b/lake")
    assert "invalid choice" in refused(capsys, *replay, "--of", "ready")


def test_a_report_needs_no_queue() -> None:
    given = read_arguments(parser_for(), [*NEEDED[2:-2], "--action", "report", "--lake", "s3://b/lake"])
    assert (given.queue, given.sla_seconds) == ("", 300.0)
