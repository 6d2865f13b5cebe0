"""What the report shows, as SQL views over any frame of messages (`millrace.spark.read`, or the lake).

    millrace_messages     the messages themselves
    millrace_flow         queue, at, arrived, done, dead, other: how many came and ended in each step of time
    millrace_latency      queue, key (null: all of them), messages, known, start_p50, start_p99, done_p50, done_p99 (s)
    millrace_failures     queue, fingerprint, error_type, error, messages, dead, runs, first_at, last_at
    millrace_retries      queue, retries, messages, write_units, retry_units
    millrace_copies       queue, source, messages, copies: a body that the queue had before, under another key
    millrace_breaches     queue, message_id, key, received_at, breach (late, dead, open), seconds

Times are as far as they are known: `started_at` and `ended_at` of a message that is done without a kept result are told
by incremental exports only.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

#: What one retry costs in write units, its claim included.
RETRY_UNITS = 6
PREFIX = "millrace_"
_ENDED = "('done', 'dead', 'purged', 'filtered')"


def _seconds(end: str) -> str:
    """From a message's arrival, exact to the millisecond; a clock that went back gives none."""
    return f"if({end} >= received_at, (unix_millis({end}) - unix_millis(received_at)) / 1000.0, null)"


def _step(moment: str) -> str:
    return f"timestamp_seconds(floor(unix_seconds({moment}) / {{step}}) * {{step}})"


_DONE_AFTER = f"if(status = 'done', {_seconds('ended_at')}, null)"
VIEWS: Mapping[str, str] = {
    "flow": f"""
        select queue, at, count_if(what = 'arrived') as arrived, count_if(what = 'done') as done,
               count_if(what = 'dead') as dead, count_if(what not in ('arrived', 'done', 'dead')) as other
        from (select queue, 'arrived' as what, {_step("received_at")} as at from millrace_messages
              union all
              select queue, status, {_step("ended_at")} from millrace_messages
              where status in {_ENDED} and ended_at is not null)
        group by queue, at""",
    "latency": f"""
        select queue, key, count(*) as messages, count({_DONE_AFTER}) as known,
               percentile({_seconds("started_at")}, 0.5) as start_p50,
               percentile({_seconds("started_at")}, 0.99) as start_p99,
               percentile({_DONE_AFTER}, 0.5) as done_p50, percentile({_DONE_AFTER}, 0.99) as done_p99
        from millrace_messages where status is null or status != 'filtered'
        group by grouping sets ((queue), (queue, key))
        having key is not null or grouping(key) = 1""",
    "failures": """
        select queue, fingerprint, max_by(error_type, seen) as error_type, max_by(error, seen) as error,
               count(*) as messages, count_if(status = 'dead') as dead, sum(attempts) as runs,
               min(received_at) as first_at, max(seen) as last_at
        from (select *, coalesce(element_at(history, -1).ended_at, ended_at, received_at) as seen
              from millrace_messages where fingerprint is not null)
        group by queue, fingerprint""",
    "retries": f"""
        select queue, greatest(attempts - if(status = 'dead', 1, 0), 0) as retries, count(*) as messages,
               sum(write_units) as write_units,
               sum({RETRY_UNITS} * greatest(attempts - if(status = 'dead', 1, 0), 0)) as retry_units
        from millrace_messages group by queue, retries""",
    "copies": """
        select queue, coalesce(source, '') as source, count(*) as messages, count_if(place > 1) as copies
        from (select queue, source, row_number() over (partition by queue, sha2(body, 256)
                                                       order by received_at, message_id) as place
              from millrace_messages where body is not null and size > 0 and origin is null)
        group by queue, source""",
    "breaches": f"""
        select queue, message_id, key, received_at, breach, seconds
        from (select *, case when status = 'dead' then 'dead'
                             when status = 'done' and {_seconds("ended_at")} > {{sla}} then 'late'
                             when status in ('ready', 'scheduled', 'in_flight') and {_seconds("seen_at")} > {{sla}}
                             then 'open' end as breach,
                        {_seconds("coalesce(ended_at, seen_at)")} as seconds
              from millrace_messages)
        where breach is not null""",
}


def register_views(messages: DataFrame, *, sla_s: float = 300.0, step_s: int = 3_600) -> list[str]:
    """Register the views in the session of these messages, in place of what had their names; returns the names.

    sla_s   a message ought to be done so long after it came
    step_s  the steps of time of `millrace_flow`
    """
    spark = messages.sparkSession
    messages.createOrReplaceTempView(f"{PREFIX}messages")
    for name, query in VIEWS.items():
        text = query.replace("{step}", str(int(step_s))).replace("{sla}", repr(float(sla_s)))
        spark.sql(text).createOrReplaceTempView(f"{PREFIX}{name}")
    return [f"{PREFIX}{name}" for name in ("messages", *VIEWS)]
