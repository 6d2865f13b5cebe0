"""The whole product on a laptop, with an app's queues and commands: `millrace dev`, `make run`.

DynamoDB Local and S3 on disk, the gateway with the template's routes, the functions, stream, schedule, console; then
one signed webhook on its way to done. Ctrl-C ends what was started here, by its process id, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from infra.local.dynamodb import REGION, DynamoDbLocal
from infra.local.engine_process import EngineMissing, free_port
from infra.local.engines import ensure_engines
from infra.local.functions import CannotRun, Functions
from infra.local.keys import make_keys
from infra.local.ministack import MiniStack
from infra.local.places import RESOURCES, Places, home_credentials, url_credentials
from infra.local.reload import LOOK_S, reload_on_change
from infra.local.tour import TOUR_SECRET, development_token, take_the_tour
from millrace.app.compile import NotCompiled, write_definitions
from millrace.app.layout import App, NoApp
from millrace.app.registered import CommandsBroken


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    app: App
    home: Path
    port: int
    dynamodb_port: int
    s3_port: int
    under_lambda: bool
    reload: bool
    tour: bool
    hosts: tuple[str, ...]


def options(arguments: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="millrace dev", description="The whole product on this machine.")
    parser.add_argument("--app", type=Path, default=Path.cwd(), help="the app's folder (this one)")
    parser.add_argument("--port", type=int, default=8080, help="of the gateway (8080; 0 for any free one)")
    parser.add_argument("--dynamodb-port", type=int, default=8000, help="of DynamoDB Local (8000; 0 for any)")
    parser.add_argument("--s3-port", type=int, default=8001, help="of S3 (8001; 0 for any)")
    parser.add_argument("--home", type=Path, help="where data is kept (the app's .local)")
    parser.add_argument(
        "--lambda", dest="under_lambda", action="store_true", help="run functions under AWS's bootstrap"
    )
    parser.add_argument("--reload", action="store_true", help="restart the functions when their code changes")
    parser.add_argument("--tour", action=argparse.BooleanOptionalAction, default=False, help="send a sample webhook")
    parser.add_argument(
        "--host", action="append", default=[], help="a name besides the loopback's that senders call, as of a tunnel"
    )
    given = parser.parse_args(arguments)
    app = App.find(given.app)
    return Options(
        app,
        (given.home or app.home).resolve(),
        given.port or free_port(),
        given.dynamodb_port or free_port(),
        given.s3_port or free_port(),
        given.under_lambda,
        given.reload,
        given.tour,
        tuple(given.host),
    )


@contextlib.contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Two stacks must not share a folder, and nobody else may look into it. Raises CannotRun."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    with (home / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise CannotRun(
                f"Millrace already runs here as process {lock.read().strip()}: stop it there with Ctrl-C, or give "
                "this one a folder and ports of its own with --home, --port, --dynamodb-port and --s3-port."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def demand_free(port: int, option: str, what: str) -> None:
    """Raises CannotRun where somebody listens."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotRun(
                f"Port {port} for {what} is taken: choose another with {option} N ({error.strerror})."
            ) from None


def prepare(places: Places) -> None:
    """Make the tables and the bucket where they are missing."""
    import boto3
    from botocore.exceptions import ClientError

    from millrace.stores.dynamodb.client import TableNames
    from millrace.stores.dynamodb.tables import create_tables

    names = TableNames(RESOURCES["QueueTable"], RESOURCES["DeadLetterTable"])
    create_tables(names, endpoint_url=places.dynamodb_url, region=REGION, stream=True)
    bucket: Any = boto3.client("s3", endpoint_url=places.s3_url, region_name=REGION)
    with contextlib.suppress(ClientError):  # it is there
        bucket.create_bucket(Bucket=RESOURCES["BodyBucket"], CreateBucketConfiguration={"LocationConstraint": REGION})


def run(chosen: Options, console: Console, stopping: threading.Event) -> None:
    """Start everything, show the way of a webhook, wait for Ctrl-C."""
    demand_free(chosen.port, "--port", "the gateway")
    demand_free(chosen.dynamodb_port, "--dynamodb-port", "DynamoDB Local")
    demand_free(chosen.s3_port, "--s3-port", "S3")
    say = console.print
    with contextlib.ExitStack() as running, console.status("Starting DynamoDB Local ...") as status:
        dynamodb = running.enter_context(DynamoDbLocal(port=chosen.dynamodb_port, data=chosen.home / "dynamodb"))
        status.update("Starting S3 ...")
        credentials = home_credentials(chosen.home)
        stack = MiniStack(
            port=chosen.s3_port,
            services=("s3", "kms"),
            objects=chosen.home / "s3",
            keys=chosen.home / "kms",
            access_key=credentials["AWS_ACCESS_KEY_ID"],
            urls=url_credentials(credentials),
        )
        s3 = running.enter_context(stack)
        places = Places(chosen.app, chosen.home, dynamodb.url, s3.url, credentials=credentials)
        secrets = places.secrets()
        prepare(places)
        for key in make_keys(places):
            say(f"[yellow]The KMS key {escape(key)} is not here, so its queue takes nothing: name an alias.[/yellow]")
        status.update("Starting the functions ...")
        functions = running.enter_context(
            Functions(places, chosen.port, under_lambda=chosen.under_lambda, hosts=chosen.hosts)
        )
        status.stop()
        url = f"http://127.0.0.1:{chosen.port}"
        token = development_token(places)
        places.publish(url)
        announce(console, chosen, places, url)
        if chosen.tour and TOUR_SECRET in secrets and not stopping.is_set():
            take_the_tour(console, url, token, secrets[TOUR_SECRET], stopping)
        say("[dim]Ctrl-C stops everything that was started here.[/dim]")
        threading.Thread(target=show_problems, args=(functions.log, say, stopping), daemon=True).start()
        if chosen.reload:
            reload_on_change(places, functions, say, stopping)
        while not stopping.wait(LOOK_S):
            pass
        say("Stopping ...")
    say("Stopped. The data stays in " + shown(chosen.home) + ".")


def show_problems(path: Path, say: Callable[[str], None], stopping: threading.Event) -> None:
    """Print what only somebody at this terminal can mend, from the functions' log as it grows: once each."""
    said: set[str] = set()
    with path.open(encoding="utf-8", errors="replace") as log:
        log.seek(0, os.SEEK_END)
        while not stopping.wait(LOOK_S):
            for text in map(problem_in, log):
                if text and text not in said:
                    said.add(text)
                    say(f"[red]{escape(text)}[/red]")


def problem_in(line: str) -> str:
    """What a line of the log says about a webhook that cannot verify; empty for all others."""
    if '"problem"' not in line:
        return ""
    try:
        record = json.loads(line)
        return f"The webhook {record['webhook']} cannot verify: {record['problem']}"
    except (ValueError, KeyError, TypeError):
        return ""


def shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def announce(console: Console, chosen: Options, places: Places, url: str) -> None:
    """URLs, where the token is, and a line to try."""
    token = shown(chosen.home / "token")
    names = json.loads(chosen.app.definitions.read_text("utf-8"))["webhooks"]
    lines = [
        ("API", url),
        ("console", f"{url}/console"),
        ("webhooks", ", ".join(f"{url}/hook/{name}" for name in names) or "none is defined"),
        ("DynamoDB", places.dynamodb_url),
        ("S3", places.s3_url),
        ("token", f"in {token} (yours only); `millrace` finds it there"),
        ("logs", shown(chosen.home / "functions.log")),
    ]
    console.print("[bold]Millrace runs.[/bold]" + (" [dim](under awslambdaric)[/dim]" if chosen.under_lambda else ""))
    for name, value in lines:
        console.print(f"  {name:10}{value}", highlight=False, soft_wrap=True)
    console.print(
        f'  try:      curl -H "Authorization: Bearer $(cat {token})" {url}/v1/queues',
        highlight=False,
        soft_wrap=True,
    )


def main(arguments: list[str]) -> int:
    console = Console()
    stopping = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt  # a second Ctrl-C: do not wait
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    try:
        chosen = options(arguments)
        with only_one(chosen.home):
            os.environ.update(home_credentials(chosen.home))
            write_definitions(chosen.app, os.environ)
            ensure_engines()
            run(chosen, console, stopping)
    except (CannotRun, EngineMissing, NoApp, NotCompiled, CommandsBroken) as failed:
        console.print(f"[red]error:[/red] {escape(str(failed))}", highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
