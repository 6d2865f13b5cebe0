"""What the ingress imports: little at a cold start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from millrace.stores.dynamodb.client import TableNames
from tests.webhooks.test_serve_events import SECRETS

ROOT = Path(__file__).resolve().parents[2]

HEAVY = (
    *("boto3", "botocore.session", "botocore.client", "pynamodb", "pydantic", "pyspark"),
    *("lark", "cel", "celpy", "cryptography", "jwt", "asyncio", "aws_lambda_powertools"),
)

SERVE_ONE = """
import json, sys
sys.path[:0] = [{root!r} + "/shared", {root!r}]
from functions.ingress import handler
answer = handler.handler(json.load(open({event!r})), None)
handler.ingress().runtime.store._calls.client.close()
print(answer["statusCode"], [name for name in {heavy!r} if name in sys.modules])
"""


def test_accepting_a_webhook_imports_neither_boto3_nor_pynamodb(
    engine_url: str, tables: TableNames, tenant: str
) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        **SECRETS,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "BODY_BUCKET": "bodies",
        "DEFINITIONS": str(ROOT / "infra" / "definitions.json"),
        "DEFAULT_TENANT": tenant,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
    }
    code = SERVE_ONE.format(root=str(ROOT), event=str(ROOT / "events" / "ingress-github-v2.json"), heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "202 []"


SLOWLY_MADE = """
import sys
sys.path[:0] = [{root!r} + "/shared", {root!r}]
import functions.ingress.handler
ours = [module for name, module in sys.modules.items() if name.startswith(("millrace", "functions"))]
kinds = {{kind for module in ours for kind in vars(module).values() if isinstance(kind, type)}}
made = [kind for kind in kinds if hasattr(kind, "__dataclass_params__")]
print(len(made) > 50, sorted(str(kind) for kind in made if kind.__dataclass_params__.frozen))
"""


def test_no_frozen_class_is_compiled_at_a_cold_start() -> None:
    """Each costs half a millisecond by the standard library; `millrace.model.values` makes them for a tenth."""
    code = SLOWLY_MADE.format(root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"
