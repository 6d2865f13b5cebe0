"""Who asks, and how far their token reaches."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.http.errors import Forbidden, Unauthorised
from millrace.http.request import ApiRequest
from millrace.model.tokens import ANY_TENANT, Scope

#: Names the tenant for tokens that reach several.
TENANT_PARAMETER = "tenant_id"
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Principal:
    """A token's holder, as the authoriser let it through."""

    token_id: str
    name: str
    scopes: frozenset[str]
    tenants: tuple[str, ...]

    @classmethod
    def of(cls, request: ApiRequest) -> Principal:
        """Raises Unauthorised where no authoriser vouches for the request: a function without one stays shut."""
        context = request.principal
        token_id = str(context.get("token_id") or "")
        if not token_id:
            raise Unauthorised
        return cls(
            token_id,
            str(context.get("name") or token_id),
            frozenset(str(context.get("scopes") or "").split()),
            tuple(str(context.get("tenants") or "").split()),
        )

    def require(self, scope: Scope) -> None:
        if scope.value not in self.scopes:
            raise Forbidden(f"scope {scope.value}")

    def tenant(self, wanted: str | None) -> str:
        """The tenant that a request is about: the one it names, else the token's only one, else `default`."""
        if wanted is None:
            wanted = self.tenants[0] if len(self.tenants) == 1 and self.tenants[0] != ANY_TENANT else DEFAULT_TENANT
        if wanted not in self.tenants and ANY_TENANT not in self.tenants:
            raise Forbidden("another tenant")
        return wanted
