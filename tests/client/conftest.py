"""The client against the real API, without a network between them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from millrace.admin.api import ROUTES as ADMIN_ROUTES
from millrace.admin.service import AdminService
from millrace.client import Client, Retries
from millrace.engine.queue import Runtime
from millrace.http.routes import Api
from millrace.openapi import V1_ROUTES
from millrace.pull.dispatcher import SHARED, Dispatcher
from millrace.pull.service import PullService
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog, MemoryTokens
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.stores.memory.uploads import MemoryUploads
from tests.pull.calling import DEFINITIONS, EVERY_SCOPE
from tests.pull.virtual_time import VirtualTime

URL = "http://millrace.test"
Fault = Callable[[httpx.Request], httpx.Response | Exception | None]


class Wire(httpx.MockTransport):
    """Carries requests to the API in this process; a test may cut in before or after."""

    def __init__(self, api: Api[PullService], tenant: str) -> None:
        self.api = api
        runtime, definitions = api.service.runtime, api.service.definitions
        self.admin = Api(AdminService(runtime, definitions, MemoryAdminJobs(), MemoryAuditLog()), ADMIN_ROUTES)
        self.tenant = tenant
        self.requests: list[httpx.Request] = []
        self.before: Fault = lambda _request: None  #: instead of the API
        self.after: Fault = lambda _request: None  #: once the API has done its work
        super().__init__(self._carry)

    def _carry(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if (answer := _given(self.before(request))) is not None:
            return answer
        if request.url.host == "uploads.memory":
            return self._transferred(request)
        api = self.admin if request.url.path.startswith("/admin/") else self.api
        result = api.handle(self._event(request))
        if (answer := _given(self.after(request))) is not None:
            return answer
        body = result["body"]
        content = base64.b64decode(body) if result["isBase64Encoded"] else body.encode()
        return httpx.Response(result["statusCode"], headers=result["headers"], content=content)

    def _transferred(self, request: httpx.Request) -> httpx.Response:
        """The bucket behind presigned URLs."""
        assert "authorization" not in request.headers, "the token is the API's alone"
        uploads = self.api.service.runtime.uploads._maybe
        assert isinstance(uploads, MemoryUploads)
        if request.method == "PUT":
            uploads.put(str(request.url), request.content)
            return httpx.Response(200)
        first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
        part = uploads.part(request.url.path.removeprefix("/"), int(first), int(last))
        return httpx.Response(206, content=part)

    def _event(self, request: httpx.Request) -> dict[str, Any]:
        principal = {"token_id": "t", "name": "tester", "scopes": EVERY_SCOPE, "tenants": self.tenant}
        return {
            "rawPath": request.url.raw_path.decode().split("?")[0],
            "rawQueryString": request.url.query.decode(),
            "headers": dict(request.headers),
            "requestContext": {"http": {"method": request.method}, "authorizer": {"lambda": principal}},
            "body": base64.b64encode(request.content).decode(),
            "isBase64Encoded": True,
        }


def _given(fault: httpx.Response | Exception | None) -> httpx.Response | None:
    if isinstance(fault, Exception):
        raise fault
    return fault


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def service(time: VirtualTime) -> PullService:
    blobs = MemoryBlobs()
    runtime = Runtime(MemoryStore(), blobs, clock=time, chance=lambda: 0.5, uploads=MemoryUploads(blobs, time))
    return PullService(runtime, DEFINITIONS, MemoryTokens(), Dispatcher(schedule=SHARED, condition=time.condition))


@pytest.fixture
def wire(service: PullService) -> Wire:
    return Wire(Api(service, V1_ROUTES), "acme")


class Pauses(list[float]):
    """What a client would have slept."""


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def client(wire: Wire, pauses: Pauses) -> Iterator[Client]:
    with Client(URL, "mrt_x", retries=Retries(chance=lambda: 1.0), transport=wire) as made:
        made.pause = pauses.append
        yield made
