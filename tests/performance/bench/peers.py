"""What a Python user would pick instead: Procrastinate on PostgreSQL; RQ, Dramatiq and Celery on Redis, each on an
engine of its own.

Engines come from the system (Debian: postgresql, redis-server) and the packages from PyPI (the extra `bench`). What is
missing is skipped with a note.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from infra.local.engine_process import free_port

#: Jobs at the same time, where a peer has that setting.
CONCURRENCY = 10


class Skipped(Exception):
    """The peer cannot be measured here; says why."""


@dataclass(frozen=True, slots=True)
class PeerCost:
    """What one job took of a worker."""

    wall_s: float
    cpu_s: float  #: of the worker's process and of those that it forked, not of the engine


def measured(work: Callable[[], object], jobs: int) -> PeerCost:
    wall, cpu = time.perf_counter(), _cpu_s()
    work()
    return PeerCost((time.perf_counter() - wall) / jobs, (_cpu_s() - cpu) / jobs)


def _cpu_s() -> float:
    times = os.times()  # engines are other processes, and not ended yet
    return times.user + times.system + times.children_user + times.children_system


def noop() -> None:
    """The job of all."""


@contextmanager
def postgres() -> Iterator[str]:
    """A cluster of its own with the settings it comes with (fsync on), gone afterwards."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        raise Skipped("PostgreSQL is not installed (Debian: postgresql)")
    binaries = found[-1].parent
    # PostgreSQL refuses to run as root.
    other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="millrace-bench-pg-"))
    if other:
        shutil.chown(folder, "postgres")
    port, data = free_port(), str(folder / "data")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    try:
        _quiet([*other, str(binaries / "initdb"), "-D", data, "-U", "bench", "-A", "trust"])
        _quiet([*other, str(binaries / "pg_ctl"), "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start"])
        yield f"host=127.0.0.1 port={port} user=bench dbname=postgres"
    finally:
        subprocess.run(
            [*other, str(binaries / "pg_ctl"), "-D", data, "-m", "immediate", "stop"], capture_output=True, check=False
        )
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis_server() -> Iterator[int]:
    """A server of its own, in memory with an append-only file (`everysec`), gone afterwards."""
    program = shutil.which("redis-server")
    if program is None:
        raise Skipped("Redis is not installed (Debian: redis-server)")
    folder, port = tempfile.mkdtemp(prefix="millrace-bench-redis-"), free_port()
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes", "--save", ""]
    process = subprocess.Popen([program, *settings], stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def procrastinate_cost(jobs: int) -> PeerCost:
    """One worker, concurrency 10, as `app.run_worker` runs it."""
    try:
        import procrastinate
    except ImportError:
        raise Skipped("the package procrastinate is not installed") from None
    with postgres() as conninfo:
        app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=conninfo))
        task = app.task(name="noop", queue="bench")(noop)
        with app.open():
            app.schema_manager.apply_schema()
            task.batch_defer(*({} for _ in range(jobs)))
        worker = app.with_connector(procrastinate.PsycopgConnector(conninfo=conninfo))
        settings: dict[str, Any] = {"wait": False, "concurrency": CONCURRENCY, "install_signal_handlers": False}
        return measured(lambda: worker.run_worker(queues=["bench"], **settings), jobs)


def rq_cost(jobs: int, *, fork: bool) -> PeerCost:
    """One worker: the default one, which forks for each job, or the one that does not."""
    try:
        import redis
        import rq
    except ImportError:
        raise Skipped("the packages rq and redis are not installed") from None
    with redis_server() as port:
        connection = redis.Redis(port=port)
        _wait_for(connection)
        queue = rq.Queue("bench", connection=connection)
        queue.enqueue_many([rq.Queue.prepare_data(noop) for _ in range(jobs)])
        worker = (rq.Worker if fork else rq.SimpleWorker)([queue], connection=connection)
        cost = measured(lambda: worker.work(burst=True, logging_level="ERROR"), jobs)
        connection.close()
        return cost


def dramatiq_cost(jobs: int) -> PeerCost:
    """One worker of ten threads, with the middleware that it comes with."""
    try:
        import dramatiq
        import redis
        from dramatiq.brokers.redis import RedisBroker
    except ImportError:
        raise Skipped("the packages dramatiq and redis are not installed") from None
    logging.getLogger("dramatiq").setLevel(logging.ERROR)
    with redis_server() as port:
        _wait_for(redis.Redis(port=port))
        broker: Any = RedisBroker(host="127.0.0.1", port=port)  # type: ignore[no-untyped-call]
        actor = dramatiq.actor(broker=broker, queue_name="bench")(noop)
        for _ in range(jobs):
            actor.send()
        worker = dramatiq.Worker(broker, worker_threads=CONCURRENCY)

        def drain() -> None:
            worker.start()
            broker.join("bench")
            worker.join()

        cost = measured(drain, jobs)
        worker.stop()
        broker.close()
        return cost


def celery_cost(jobs: int) -> PeerCost:
    """One worker of ten threads; results are ignored."""
    try:
        import celery
        import redis
        from celery.signals import task_postrun
    except ImportError:
        raise Skipped("the packages celery and redis are not installed") from None
    with redis_server() as port:
        _wait_for(redis.Redis(port=port))
        app = celery.Celery("bench", broker=f"redis://127.0.0.1:{port}/0", set_as_current=False)
        app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False, task_default_queue="bench")
        task = app.task(name="noop")(noop)
        for _ in range(jobs):
            task.delay()
        done = Event()
        count = iter(range(jobs - 1, -1, -1))

        def ended(**_: object) -> None:
            if next(count) == 0:
                done.set()

        task_postrun.connect(ended, weak=False)
        worker = app.WorkController(pool="threads", concurrency=CONCURRENCY, hostname="bench@localhost")
        thread = Thread(target=worker.start, daemon=True)

        def drain() -> None:
            thread.start()
            if not done.wait(300):
                raise Skipped("Celery did not finish in five minutes")

        try:
            return measured(drain, jobs)
        finally:
            task_postrun.disconnect(ended)
            worker.stop()
            thread.join(30)


def _wait_for(connection: object) -> None:
    import redis

    for _ in range(200):
        try:
            connection.ping()  # type: ignore[attr-defined]
        except redis.ConnectionError:
            time.sleep(0.05)
        else:
            return


def _quiet(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
