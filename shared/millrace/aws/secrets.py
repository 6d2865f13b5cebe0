"""Secrets Manager and SSM, through Powertools parameters; imported only when a reference needs them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from millrace.signatures.secrets import Fetch, SecretMissing, StoreSilent

#: Answers that waiting does not change.
_MISSING = (
    "ResourceNotFoundException",
    "ParameterNotFound",
    "ParameterVersionNotFound",
    "InvalidRequestException",
    "AccessDeniedException",
    "DecryptionFailure",
)


def powertools_fetch(kind: str) -> Fetch:
    """A fetch from `secretsmanager` or `ssm`. Costs the import of Powertools parameters and a client."""
    from aws_lambda_powertools.utilities.parameters import SecretsProvider, SSMProvider
    from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
    from botocore.config import Config

    # The shortest patience of a provider is 3 s; two tries must fit into it.
    config = Config(connect_timeout=0.5, read_timeout=1.0, retries={"total_max_attempts": 2, "mode": "standard"})
    # Powertools keeps nothing itself (max_age=0): its cache reads the wall clock and would hold a second copy.
    get: Callable[..., object]
    if kind == "secretsmanager":
        get = partial(SecretsProvider(boto_config=config).get, max_age=0, force_fetch=True)
    else:
        get = partial(SSMProvider(boto_config=config).get, max_age=0, force_fetch=True, decrypt=True)

    def fetch(name: str) -> str:
        try:
            value = get(name)
        except GetParameterError as failed:
            missing = _code(failed.__context__) in _MISSING
        else:
            return value.decode("latin-1") if isinstance(value, bytes) else str(value)
        raise SecretMissing if missing else StoreSilent

    return fetch


def _code(error: BaseException | None) -> str:
    """The service's own code of an error that Powertools wrapped."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
