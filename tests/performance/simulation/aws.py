"""Lambda, the table's stream, the schedule and S3 in virtual time: what of them can delay, throttle or lose a wake-up.

Lambda freezes an instance between two invocations and never runs two at once in one. A stream's lane waits for the
invocation that it started. A schedule fires at least once. S3 without `s3:ListBucket` answers 403 for what is missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError

from infra.local.gateway import PAYLOAD_BYTES, payload_bytes
from tests.performance.simulation.dynamodb import SimulatedDynamoDB
from tests.performance.simulation.virtual_time import Process, VirtualTime


class Throttled(Exception):
    """No instance may be started: the concurrency is used up."""


class FunctionError(Exception):
    """The function raised, ran out of time, or answered with too much."""


@dataclass
class Invocation:
    """What a handler gets as its context."""

    time: VirtualTime
    deadline: float

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int(self.deadline - self.time.now))


Handler = Callable[[dict[str, Any], Invocation], Any]


@dataclass
class Instance:
    """One execution environment, with what its first invocation built."""

    process: Process
    handler: Handler


@dataclass
class Function:
    """A function and its instances."""

    name: str
    make: Callable[[], Handler]  #: called once for each instance, in it: what a cold start builds
    timeout_s: float = 300.0
    cold_start_ms: tuple[float, float] = (250.0, 600.0)
    reserved: int | None = None
    idle: list[Instance] = field(default_factory=list)
    running: dict[int, Instance] = field(default_factory=dict)
    invocations: int = 0
    cold_starts: int = 0
    throttles: int = 0
    busy_ms: float = 0.0


class Lambda:
    """The functions of an account."""

    def __init__(self, time: VirtualTime, account_concurrency: int = 1_000) -> None:
        self._time = time
        self._account = account_concurrency
        self.functions: dict[str, Function] = {}

    def add(self, function: Function) -> Function:
        self.functions[function.name] = function
        return function

    def invoke(self, name: str, event: dict[str, Any]) -> Any:
        """Invoke and wait for the answer, from inside a task. Raises Throttled or FunctionError."""
        function = self.functions[name]
        if payload_bytes(event) > PAYLOAD_BYTES:
            raise FunctionError("RequestEntityTooLarge")
        self._admit(function)
        outcome: dict[str, Any] = {}
        function.invocations += 1
        number = function.invocations
        instance = self._instance(function)
        function.running[number] = instance
        began = self._time.now
        limit = Invocation(self._time, began + function.timeout_s * 1000)

        def run() -> None:
            if instance.handler is _UNBUILT:
                low, high = function.cold_start_ms
                self._time.sleep_ms(self._time.random.uniform(low, high))
                instance.handler = function.make()
            try:
                outcome["answer"] = instance.handler(event, limit)
            except Exception as error:  # noqa: BLE001 (a function that raises fails its invocation)
                outcome["error"] = error

        def finished(wake: Callable[[], None]) -> None:
            task = self._time.spawn(f"{name}-{number}", run, process=instance.process)
            task.on_end.append(wake)
            self._time.at(limit.deadline, lambda: None if task.over else self._time.kill_process(instance.process))

        self._time.wait(finished)
        del function.running[number]
        function.busy_ms += self._time.now - began
        if not instance.process.dead:
            function.idle.append(instance)
        if "answer" not in outcome:
            raise FunctionError(str(outcome.get("error", "the function ran out of time or was killed")))
        if payload_bytes(outcome["answer"]) > PAYLOAD_BYTES:
            raise FunctionError("Function.ResponseSizeTooLarge")
        return outcome["answer"]

    def invoke_async(self, name: str, event: dict[str, Any]) -> None:
        """An event invocation: accepted at once, tried again for a while where there is no room."""

        def deliver() -> None:
            for wait_s in (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
                self._time.sleep(wait_s)
                try:
                    self.invoke(name, event)
                except Throttled:
                    continue
                except FunctionError:
                    pass
                return

        self._time.spawn(f"{name}-async", deliver, process=Process("lambda service"))

    def kill_running(self, name: str, count: int = 1) -> int:
        """Kill instances in the middle of their work; how many there were."""
        victims = list(self.functions[name].running.values())[:count]
        for instance in victims:
            self._time.kill_process(instance.process)
        return len(victims)

    def _admit(self, function: Function) -> None:
        own = len(function.running)
        everywhere = sum(len(one.running) for one in self.functions.values())
        limit_reached = own >= function.reserved if function.reserved is not None else everywhere >= self._account
        if limit_reached:
            function.throttles += 1
            raise Throttled(function.name)

    def _instance(self, function: Function) -> Instance:
        if function.idle:
            return function.idle.pop()
        function.cold_starts += 1
        return Instance(Process(f"{function.name}#{function.cold_starts}"), _UNBUILT)


def _UNBUILT(_event: dict[str, Any], _context: Invocation) -> Any:  # noqa: N802 (a constant that is a function)
    raise AssertionError("the instance was not built")


# -- the stream ----------------------------------------------------------------------------------------------------
@dataclass
class Stream:
    """The table's stream with its event source mapping: shards, lanes, batches, record age."""

    time: VirtualTime
    table: str
    deliver: Callable[[dict[str, Any]], Any]  #: invokes the function and waits; raises where it fails
    shards: int = 4
    lanes: int = 10
    batch_size: int = 100
    poll_ms: float = 100.0
    max_age_s: float = 120.0
    retries: int = 2
    failed: int = 0  #: records given to the failure destination
    iterator_age_ms: float = 0.0  #: the oldest that a record was when it was handed over
    batches: int = 0
    _waiting: dict[tuple[int, int], deque[tuple[float, dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    _busy: set[tuple[int, int]] = field(default_factory=set)

    def attach(self, dynamodb: SimulatedDynamoDB) -> None:
        dynamodb.watch(self._record)

    def _record(self, table: str, key: dict[str, Any], old: Any, new: Any) -> None:
        """The mapping's filter: entries that appear, and nothing else."""
        if table != self.table or old is not None or new is None or not key["sk"]["S"].startswith(("R#", "W#")):
            return
        spread = sum(key["pk"]["S"].encode())
        lane = (spread % self.shards, spread // self.shards % self.lanes)
        self._waiting[lane].append((self.time.now, {"eventName": "INSERT", "dynamodb": {"Keys": key}}))
        if lane not in self._busy:
            self._busy.add(lane)
            self.time.spawn("stream-lane", lambda: self._work(lane), after_ms=self.poll_ms, process=Process("stream"))

    def _work(self, lane: tuple[int, int]) -> None:
        """One batch at a time: the next waits until this invocation has returned."""
        waiting = self._waiting[lane]
        while waiting:
            batch = [waiting.popleft() for _ in range(min(self.batch_size, len(waiting)))]
            oldest = batch[0][0]
            self.iterator_age_ms = max(self.iterator_age_ms, self.time.now - oldest)
            self.batches += 1
            if not self._delivered([record for _, record in batch], oldest):
                self.failed += len(batch)
        self._busy.discard(lane)

    def _delivered(self, records: list[dict[str, Any]], oldest: float) -> bool:
        tries = 0
        while self.time.now - oldest <= self.max_age_s * 1000:
            try:
                self.deliver({"Records": records})
            except Throttled:
                self.time.sleep_ms(1_000)
            except FunctionError:
                tries += 1
                if tries > self.retries:
                    return False
            else:
                return True
        return False


def every(time: VirtualTime, seconds: float, call: Callable[[], Any], *, late_ms: float = 500.0) -> None:
    """A schedule: once in so many seconds, a little late now and then, for as long as the run lasts."""

    def tick() -> None:
        while True:
            time.sleep(seconds)
            time.spawn(
                "tick", lambda: _quietly(call), after_ms=time.random.uniform(0, late_ms), process=Process("schedule")
            )

    time.spawn("schedule", tick, process=Process("schedule"))


def _quietly(call: Callable[[], Any]) -> None:
    try:
        call()
    except (Throttled, FunctionError):
        return


# -- S3 ------------------------------------------------------------------------------------------------------------
class SimulatedS3:
    """As much of an S3 client as the blobs use."""

    def __init__(self, time: VirtualTime, *, may_list: bool = False) -> None:
        self._time = time
        self._may_list = may_list
        self.objects: dict[tuple[str, str], bytes] = {}
        self.requests: Counter[str] = Counter()

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> dict[str, Any]:  # noqa: N803
        self.requests["put"] += 1
        self._time.sleep_ms(self._time.random.uniform(20, 60))
        self.objects[Bucket, Key] = Body
        return {}

    def list_objects_v2(self, *, Bucket: str, Prefix: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        self.requests["list"] += 1
        self._time.sleep_ms(self._time.random.uniform(15, 40))
        if not self._may_list:
            response: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
            raise ClientError(response, "ListObjectsV2")
        return {"Contents": [{"Key": key} for bucket, key in self.objects if bucket == Bucket and key == Prefix]}

    def get_object(self, *, Bucket: str, Key: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        self.requests["get"] += 1
        self._time.sleep_ms(self._time.random.uniform(15, 40))
        if (Bucket, Key) not in self.objects:
            code, status = ("NoSuchKey", 404) if self._may_list else ("AccessDenied", 403)
            response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(response, "GetObject")
        return {"Body": BytesIO(self.objects[Bucket, Key])}
