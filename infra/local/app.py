"""The product as one process: the gateway, the functions, what wakes them. Started by `run.py`, restarted on reload.

    python -m infra.local.app --app . --port 8080 --dynamodb http://… --s3 http://… [--lambda]

Functions run in this process, or with `--lambda` each in processes of its own under AWS's bootstrap.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.local.dynamodb import CREDENTIALS
from infra.local.gateway import Binding, Gateway
from infra.local.lambda_runtime import InvokeApi, LambdaFunction
from infra.local.metrics import metrics_binding
from infra.local.places import RESOURCES, Places
from infra.local.streams import StreamPoller
from infra.local.template import Template
from millrace.app.layout import App

Call = Callable[..., Any]
#: Between two rounds of the schedule.
MINUTE_S = 60.0
#: What runs has so long to finish when the stack is stopped.
GRACE_MS = 3_000
WAKE_UPS = 16
log = logging.getLogger("millrace.local")


class Remaining:
    """Lambda's context, as far as it is used: how much time an invocation has left. `stop` brings the end near."""

    def __init__(self, timeout_s: int, stopping: threading.Event) -> None:
        self._end = time.monotonic() + timeout_s
        self._stopping = stopping

    def get_remaining_time_in_millis(self) -> int:
        left = int((self._end - time.monotonic()) * 1000)
        return min(left, GRACE_MS) if self._stopping.is_set() else left


class LocalStack:
    """The functions by their logical ids, and everything that calls them."""

    def __init__(self, places: Places, *, port: int, under_lambda: bool, hosts: Iterable[str] = ()) -> None:
        self.template = Template.read()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(WAKE_UPS, thread_name_prefix="wake")
        self._sandboxes: list[LambdaFunction] = []
        self._invoke = InvokeApi() if under_lambda else None
        worker = self.template.functions()["WorkerFunction"]
        self._metrics = metrics_binding(places.environment(worker, self.template, in_process=True))
        self._functions = self._in_sandboxes(places) if under_lambda else self._in_process(places)
        self._dynamodb_url = places.dynamodb_url
        self.gateway = Gateway(self._bindings(), port=port, hosts=hosts)

    def _in_process(self, places: Places) -> dict[str, Call]:
        found: dict[str, Call] = {}
        for name, function in self.template.functions().items():
            os.environ.update(places.environment(function, self.template, in_process=True))
            module, _, attribute = function.handler.rpartition(".")
            handler = getattr(importlib.import_module(module), attribute)
            found[name] = self._with_context(handler, function.timeout_s)
        return found

    def _with_context(self, handler: Call, timeout_s: int) -> Call:
        return lambda event, _context=None: handler(event, Remaining(timeout_s, self._stopping))

    def _in_sandboxes(self, places: Places) -> dict[str, Call]:
        assert self._invoke is not None  # noqa: S101
        output = sys.stdout.buffer
        for name, function in self.template.functions().items():
            environment = places.environment(function, self.template, in_process=False)
            environment["AWS_ENDPOINT_URL_LAMBDA"] = self._invoke.url
            sandbox = LambdaFunction(name, function.handler, environment, function.timeout_s, output)
            self._sandboxes.append(sandbox)
            self._invoke.functions[name] = sandbox
        return dict(self._invoke.functions)

    def _bindings(self) -> list[Binding]:
        return [
            Binding(
                route.key,
                self._functions[route.function],
                self._functions[route.authoriser] if route.authoriser else None,
            )
            for route in self.template.routes()
        ] + [self._metrics]

    def _wake(self, event: dict[str, Any]) -> None:
        """Wake the worker, once for each queue: here no worker can call another."""
        by_queue: dict[str, list[Any]] = {}
        for record in event["Records"]:
            by_queue.setdefault(record["dynamodb"]["Keys"]["pk"]["S"].rpartition("#")[0], []).append(record)
        for records in by_queue.values():
            self._submit("WorkerFunction", {"Records": [_plain(record) for record in records]})

    def _submit(self, function: str, event: dict[str, Any]) -> None:
        if not self._stopping.is_set():
            self._pool.submit(self._attempt, function, event)

    def _attempt(self, function: str, event: dict[str, Any]) -> None:
        try:
            self._functions[function](event)
        except (Exception, SystemExit):
            log.exception("A wake-up failed; the next sweep tries again.", extra={"action": "wake_up_failed"})

    def _schedule(self) -> None:
        """The template's schedule: at once, for what was left over, then every minute."""
        targets = self.template.resources["SweepSchedule"]["Properties"]["Targets"]
        while not self._stopping.is_set():
            for target in targets:
                self._submit(target["Arn"].argument.removesuffix(".Arn"), json.loads(target["Input"]))
            self._stopping.wait(MINUTE_S)

    def _watch_stream(self, running: contextlib.ExitStack) -> bool:
        """Read the table's stream from now on; False while DynamoDB is away. Webhooks are answered all the same."""
        try:
            running.enter_context(StreamPoller(self._dynamodb_url, RESOURCES["QueueTable"], self._wake))
        except (BotoCoreError, ClientError) as error:
            log.warning("The stream cannot be read yet: %s", error)
            return False
        return True

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        with contextlib.ExitStack() as running:
            watched = self._watch_stream(running)
            running.enter_context(self.gateway)
            threading.Thread(target=self._schedule, name="schedule", daemon=True).start()
            while not self._stopping.wait(0.5):
                watched = watched or self._watch_stream(running)
        for sandbox in self._sandboxes:
            sandbox.stop()
        if self._invoke is not None:
            self._invoke.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Without what JSON cannot carry: nobody reads the image here."""
    change = {name: value for name, value in record["dynamodb"].items() if name != "NewImage"}
    return {**record, "dynamodb": change}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.local.app")
    parser.add_argument("--app", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dynamodb", required=True)
    parser.add_argument("--s3", required=True)
    parser.add_argument("--lambda", dest="under_lambda", action="store_true")
    parser.add_argument("--host", action="append", default=[], help="a name besides the loopback's, as of a tunnel")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="for the functions' environment"
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
    overrides = dict(pair.split("=", 1) for pair in given.set)
    credentials = {name: os.environ.get(name, value) for name, value in CREDENTIALS.items()}
    places = Places(App(given.app), given.home, given.dynamodb, given.s3, overrides, credentials)
    app = LocalStack(places, port=given.port, under_lambda=given.under_lambda, hosts=given.host)
    app.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
