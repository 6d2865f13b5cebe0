"""What a Python user would pick instead: Procrastinate on PostgreSQL, RQ on Redis, each on an engine of its own.

Engines come from the system (Debian: postgresql, redis-server) and the packages from PyPI (procrastinate,
psycopg[binary], rq, redis). What is missing is skipped with a note.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.local.engine_process import free_port


class Skipped(Exception):
    """The peer cannot be measured here; says why."""


def noop() -> None:
    """The job of both."""


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


def procrastinate_rate(jobs: int) -> float:
    """No-op jobs a second of one worker, concurrency 10, as `app.run_worker` runs it."""
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
        begun = time.perf_counter()
        worker.run_worker(queues=["bench"], wait=False, concurrency=10, install_signal_handlers=False)
        return jobs / (time.perf_counter() - begun)


def rq_rate(jobs: int, *, fork: bool) -> float:
    """No-op jobs a second of one worker: the default one, which forks for each job, or the one that does not."""
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
        begun = time.perf_counter()
        worker.work(burst=True, logging_level="ERROR")
        taken = time.perf_counter() - begun
        connection.close()
        return jobs / taken


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
