"""Driving the client's steps: blocking, or with asyncio. The only two places that differ."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import quote

import httpx

from millrace.client.errors import Unreachable
from millrace.client.steps import Pause, Reply, Retries, Send, Steps
from millrace.model.trace_context import current_trace

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Account:
    """Where the API is, who calls it, and how patiently."""

    url: str
    token: str
    tenant: str | None = None
    retries: Retries = field(default_factory=Retries)

    def request(self, send: Send) -> dict[str, Any]:
        """The arguments of httpx's `request`."""
        timeout = httpx.Timeout(send.timeout_s, connect=5.0)
        if send.url:
            headers = dict(send.headers)
            return {
                "method": send.method, "url": send.url, "headers": headers, "content": send.content, "timeout": timeout
            }  # fmt: skip
        query = dict(send.query)
        if self.tenant is not None:
            query["tenant_id"] = self.tenant
        return {
            "method": send.method,
            "url": self.url.rstrip("/") + quote(send.path, safe="/"),
            "params": query,
            "headers": {"Authorization": f"Bearer {self.token}", **current_trace(), **send.headers},
            "content": send.content,
            "timeout": timeout,
        }


class Parts(Protocol[T_co]):
    """Something that comes in parts."""

    def following(self) -> Steps[T_co | None]:
        """The next part; None at the end."""


class Side:
    """What both sides know."""

    account: Account


class SyncSide(Side):
    """Runs steps and waits for them."""

    http: httpx.Client
    pause: Callable[[float], None] = staticmethod(time.sleep)

    def run(self, steps: Steps[T]) -> T:
        try:
            effect = next(steps)
            while True:
                try:
                    reply = self._perform(effect)
                except Unreachable as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(reply)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def _perform(self, effect: Send | Pause) -> Reply | None:
        if isinstance(effect, Pause):
            self.pause(effect.seconds)
            return None
        try:
            return _reply(self.http.request(**self.account.request(effect)))
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    def parts(self, parts: Parts[T]) -> Iterator[T]:
        while (part := self.run(parts.following())) is not None:
            yield part


class AsyncSide(Side):
    """Runs steps without blocking."""

    http: httpx.AsyncClient

    async def run(self, steps: Steps[T]) -> T:
        try:
            effect = next(steps)
            while True:
                try:
                    reply = await self._perform(effect)
                except Unreachable as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(reply)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def _perform(self, effect: Send | Pause) -> Reply | None:
        if isinstance(effect, Pause):
            await asyncio.sleep(effect.seconds)
            return None
        try:
            return _reply(await self.http.request(**self.account.request(effect)))
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    async def parts(self, parts: Parts[T]) -> AsyncIterator[T]:
        while (part := await self.run(parts.following())) is not None:
            yield part


def _reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, response.headers, response.content)


def _unreachable(error: httpx.TransportError) -> Unreachable:
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return Unreachable(f"{type(error).__name__}: {error}".rstrip(": ."), sent=not never_sent)


@cache
def _signature(written: Callable[..., Any], *, bound: bool) -> inspect.Signature:
    """The signature of a call, with `self` in place of the side that it is written for, or without it."""
    signature = inspect.signature(written)
    side, *rest = signature.parameters.values()
    steps = str(signature.return_annotation)
    gives = steps[6:-1] if steps.startswith("Steps[") else "Iterator[bytes]"
    return signature.replace(
        parameters=rest if bound else [side.replace(name="self", annotation=inspect.Parameter.empty), *rest],
        return_annotation=gives,
    )


def _method(written: Callable[..., Any], made: Callable[..., Any], owner: type, *, bound: bool) -> Callable[..., Any]:
    """A call with the name, signature and docstring that `help` and editors show."""
    name = written.__name__.lstrip("_")
    made.__name__, made.__qualname__, made.__doc__ = name, f"{owner.__name__}.{name}", written.__doc__
    made.__module__ = owner.__module__
    vars(made)["__signature__"] = _signature(written, bound=bound)
    return made


class BoundCall(Generic[P, T]):
    """A method written once: it blocks on a `SyncSide` and is awaited on an `AsyncSide`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, side: SyncSide, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, side: AsyncSide, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, side: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, side: Any, owner: type) -> Any:
        steps = self._steps
        if side is None:
            return _method(steps, lambda self, *args, **kw: self.run(steps(self, *args, **kw)), owner, bound=False)
        return _method(steps, lambda *args, **kwargs: side.run(steps(side, *args, **kwargs)), owner, bound=True)


class Stream(Generic[P, T]):
    """The same for what comes in parts: an iterator, or an asynchronous one."""

    def __init__(self, parts: Callable[Concatenate[Any, P], Parts[T]]) -> None:
        self._parts = parts
        self.__doc__ = parts.__doc__

    @overload
    def __get__(self, side: SyncSide, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, side: AsyncSide, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, side: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, side: Any, owner: type) -> Any:
        parts = self._parts
        if side is None:
            return _method(parts, lambda self, *args, **kw: self.parts(parts(self, *args, **kw)), owner, bound=False)
        return _method(parts, lambda *args, **kwargs: side.parts(parts(side, *args, **kwargs)), owner, bound=True)
