"""The `http` target: a POST signed as Standard Webhooks describe, to a public address, over kept connections.

    2xx            done; a small JSON answer is kept as the result
    429            put back for Retry-After, no attempt charged: the target has no room
    410            rejected: the endpoint says that it is gone for good
    3xx            failed; redirects are followed only where that is allowed, each hop checked anew
    5xx, no answer the endpoint is down: failed, and its circuit breaker counts it
    any other      failed: retried by the queue's backoff, after Retry-After where the answer names one

Other 4xx are retried as well: most are a receiver's mistake of the moment (a bad deploy, a rotated key), and a dead
letter can be replayed while an accepted rejection cannot be taken back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin

import urllib3

from millrace.handlers.controls import Reject, Retry, Unavailable
from millrace.model.trace_context import onward_trace
from millrace.signatures import ConfigurationMissing, SecretSource, preset
from millrace.signatures.signing import sign
from millrace.worker.context import RunContext
from millrace.worker.targets.address import AddressGuard, AddressRefused, guarded_pools
from millrace.worker.targets.request import TargetFailed, TargetRequest, Throttled

STANDARD = preset("standard_webhooks")
CONNECT_S = 5.0
MAX_S = 30.0
#: Of an answer this much is read, within the request's time; of that, this much is kept as a result.
ANSWER_BYTES = 64 * 1024
RESULT_BYTES = 4 * 1024
MAX_REDIRECTS = 3
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class HttpFailed(TargetFailed):
    """The endpoint answered, but not with success."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How requests are signed and where they may go."""

    signing: tuple[str, ...]  #: references of the secrets that sign for targets without one of their own
    follow_redirects: bool = False
    allow_loopback: bool = False  #: for development: also plain http to this machine
    user_agent: str = "Millrace/1"


class HttpDelivery:
    """Posts the rendered input as JSON. Safe to share between threads; connections are kept and reused."""

    def __init__(
        self,
        settings: HttpSettings,
        secrets: SecretSource,
        *,
        guard: AddressGuard | None = None,
        pools: urllib3.PoolManager | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._pools = pools or guarded_pools(guard or AddressGuard(allow_loopback=settings.allow_loopback))
        self._monotonic = monotonic

    def __call__(self, context: RunContext, request: TargetRequest) -> Any:
        body = json.dumps(request.given, separators=(",", ":"), ensure_ascii=False).encode()
        headers = self._headers(context, request, body)
        allowed_s = min(MAX_S, max(0.1, context.remaining_ms() / 1000))
        end = self._monotonic() + allowed_s
        try:
            answer = self._post(request.destination, body, headers, end)
        except AddressRefused as refused:
            raise Reject(str(refused)) from refused
        except urllib3.exceptions.HTTPError as error:
            raise Unavailable(reason=f"{type(error).__name__}: the endpoint gave no answer.") from error
        try:
            data = self._read(answer, end)
            return self._judge(answer, data, context)
        finally:
            answer.release_conn() if answer.length_remaining == 0 else answer.close()

    def _headers(self, context: RunContext, request: TargetRequest, body: bytes) -> dict[str, str]:
        now = context.queue.now()
        references = self._settings.signing if request.secrets is None else request.secrets
        live = [secret for secret in self._secrets.resolve(references) if secret.live(now)]
        if not live:
            raise ConfigurationMissing("no secret is live to sign an http target with")
        delivery_id = f"{context.message_id}.{request.index}" if request.several else context.message_id
        return {
            "content-type": "application/json",
            "user-agent": self._settings.user_agent,
            "x-correlation-id": context.correlation_id,
            "millrace-message-id": context.message_id,
            "millrace-queue": context.queue.spec.name,
            "millrace-claim-version": str(context.version),
            "millrace-attempt": str(context.attempt),
            **onward_trace(context.message.headers),
            **sign(STANDARD, live, body, now, delivery_id=delivery_id),
        }

    def _post(self, url: str, body: bytes, headers: dict[str, str], end: float) -> urllib3.BaseHTTPResponse:
        for _ in range(MAX_REDIRECTS + 1):
            self._demand_secure(url)
            left = max(0.1, end - self._monotonic())
            answer = self._pools.request(
                "POST",
                url,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(CONNECT_S, left), read=left, total=left),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            location = answer.headers.get("location")
            if not (self._settings.follow_redirects and answer.status in REDIRECTS and location):
                return answer
            answer.close()
            url = urljoin(url, location)
        raise HttpFailed(f"More than {MAX_REDIRECTS} redirects.")

    def _demand_secure(self, url: str) -> None:
        scheme = urllib3.util.parse_url(url).scheme
        if scheme != "https" and not (scheme == "http" and self._settings.allow_loopback):
            raise AddressRefused("the address is not https")

    def _read(self, answer: urllib3.BaseHTTPResponse, end: float) -> bytes:
        """Up to ANSWER_BYTES, as long as there is time: an answer that drips must not hold a worker."""
        data = b""
        while len(data) < ANSWER_BYTES and self._monotonic() < end:
            piece = answer.read1(ANSWER_BYTES - len(data))
            if not piece:
                break
            data += piece
        return data

    def _judge(self, answer: urllib3.BaseHTTPResponse, data: bytes, context: RunContext) -> Any:
        status = answer.status
        if 200 <= status < 300:
            kept = answer.headers.get("content-type", "").startswith("application/json") and len(data) <= RESULT_BYTES
            return data if kept else {"status": status}
        wait = retry_after_s(answer.headers.get("retry-after"), context.queue.now())
        if status == 429:
            raise Throttled(wait, "The endpoint answered 429.")
        if status == 410:
            raise Reject("The endpoint answered 410: it is gone.")
        if status >= 500:
            after = None if wait is None else min(wait, 3_600.0)
            raise Unavailable(after=after, reason=f"The endpoint answered {status}.")
        if wait is not None:
            raise Retry(after=min(wait, 3_600.0), reason=f"The endpoint answered {status}.")
        raise HttpFailed(f"The endpoint answered {status}.")


def retry_after_s(text: str | None, now: int) -> float | None:
    """Seconds that a Retry-After header asks for, in either of its two forms; None for neither."""
    if not text:
        return None
    if text.strip().isdecimal() and len(text.strip()) <= 9:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, moment.timestamp() - now / 1000)
    except (TypeError, ValueError, OverflowError):
        return None
