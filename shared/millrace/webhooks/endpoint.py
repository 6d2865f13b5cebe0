"""One webhook, ready to be called: its definition, its scheme, its queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from millrace.engine.queue import Runtime
from millrace.model.errors import BodyTooLarge, MillraceError, NotFound
from millrace.model.queue_spec import DEFAULT_TENANT, HOOK_PREFIX, MAX_BODY_BYTES
from millrace.model.values import dataclass
from millrace.signatures import Headers, PublishedKeys, Scheme, SecretSource, WebhookRequest, scheme_from
from millrace.signatures.challenges import asks_anybody
from millrace.signatures.request import FORM_TYPE
from millrace.signatures.scheme import Form

if TYPE_CHECKING:
    from millrace.definitions import Definitions, QueueDefinition, WebhookDefinition
    from millrace.model.webhook_problems import WebhookProblem

#: Runs a command by name, with its rendered input and the call's correlation id; gives what JSON can carry.
RunCommand = Callable[[str, Mapping[str, Any], str], Any]


class UnknownWebhook(MillraceError):
    """No webhook has that address."""

    code = "unknown_webhook"

    def __init__(self) -> None:
        super().__init__("There is no webhook at this address.")


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """A webhook and what it leads to."""

    name: str
    webhook: WebhookDefinition
    scheme: Scheme | None  #: None: anybody may call
    definition: QueueDefinition | None  #: None: a command runs at once
    success_status: int = 202
    overload_status: int = 503

    @classmethod
    def of(cls, webhook: WebhookDefinition, definition: QueueDefinition | None) -> WebhookEndpoint:
        """The endpoint of a definition; where it names a provider, that one's statuses are the answers."""
        settings = webhook.signature_settings
        if settings is None:
            return cls(webhook.name, webhook, None, definition)
        scheme = scheme_from(settings)
        facts = scheme.facts
        return cls(webhook.name, webhook, scheme, definition, facts.success_status, facts.overload_status)

    def is_question(self, request: WebhookRequest) -> bool:
        """Whether a request is no event: it asks something, or is nothing that a webhook takes."""
        if request.method == "POST":
            return self.scheme is not None and asks_anybody(self.scheme, request)
        return not self.sent_by_get(request)

    def sent_by_get(self, request: WebhookRequest) -> bool:
        """Whether a GET is an event: Twilio's, with its fields and its signature over the query."""
        twilio = self.scheme is not None and self.scheme.form is Form.TWILIO
        return twilio and request.method == "GET" and not request.body

    def read(self, request: WebhookRequest) -> WebhookRequest:
        """The request as its message is made of it: the query of an event sent by GET is its form."""
        if request.method != "GET":
            return request
        headers = {
            **{name: ", ".join(request.headers.all(name)) for name in request.headers},
            "content-type": FORM_TYPE,
        }
        return replace(request, body=request.query.encode("utf-8", "replace"), headers=Headers(headers))

    def signed(self, request: WebhookRequest, tenant: str) -> WebhookRequest:
        """The request as its provider signed it: where the definition names a public address, that one was signed.

        What a proxy added to the query or took from it is made up for. Raises BodyTooLarge for what is above the
        queue's own limit.
        """
        limit = self.definition.spec.max_body_bytes if self.definition else MAX_BODY_BYTES
        if len(request.body) > limit:
            raise BodyTooLarge(len(request.body), limit)
        public = self.webhook.public_url
        if public is None:
            return request
        address, _, own = public.replace("{tenant}", tenant).partition("?")

        def at(url: str) -> str:
            called = url.partition("#")[0].partition("?")[2]
            kept = not own or called == own or called.startswith(f"{own}&")
            query = called if kept else "&".join(filter(None, (own, called)))
            return f"{address}{'?' if query else ''}{query}"

        return replace(request, url=at(request.url), other_urls=tuple(map(at, request.other_urls)))


@dataclass(frozen=True, slots=True)
class Ingress:
    """Every webhook of a deployment, and what is behind them. One for each process."""

    definitions: Definitions
    runtime: Runtime
    secrets: SecretSource
    default_tenant: str = DEFAULT_TENANT
    run_command: RunCommand | None = None
    keys: PublishedKeys | None = None  #: of providers; None: their deliveries are refused
    noted: dict[str, WebhookProblem] = field(default_factory=dict, init=False, repr=False)  #: by this process
    _endpoints: dict[tuple[str, str], WebhookEndpoint] = field(default_factory=dict, init=False, repr=False)

    def endpoint_at(self, path: str) -> tuple[str, WebhookEndpoint]:
        """Whose webhook a path names, and which: `…/hook/{name}` or `…/hook/{tenant}/{name}`. Raises UnknownWebhook.

        The first `hook` counts, so that a name below it means one thing.
        """
        _, prefix, rest = f"/{path.strip('/')}/".partition(f"/{HOOK_PREFIX}/")
        match rest[:-1].split("/") if prefix else []:
            case [name]:
                return self.default_tenant, self.endpoint(self.default_tenant, name)
            case [tenant, name]:
                return tenant, self.endpoint(tenant, name)
        raise UnknownWebhook

    def endpoint(self, tenant: str, name: str) -> WebhookEndpoint:
        """The webhook of that name, as it is open to a tenant. Raises UnknownWebhook, whichever of both is unknown."""
        endpoint = self._endpoints.get((tenant, name))
        if endpoint is None:
            try:
                # A made-up tenant is refused before anything is verified or written: each has limits of its own.
                webhook = self.definitions.webhook_of(tenant, name, is_default=tenant == self.default_tenant)
            except NotFound:
                raise UnknownWebhook from None
            queue = None if webhook.queue is None else self.definitions.queue(webhook.queue)
            endpoint = self._endpoints[tenant, name] = WebhookEndpoint.of(webhook, queue)
        return endpoint
