"""The tests mirror the library: the test of `shared/millrace/a/b.py` is `tests/a/test_b*.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LIBRARY = TESTS.parent / "shared" / "millrace"
MODULES = sorted(
    path.relative_to(LIBRARY).with_suffix("").as_posix() for path in LIBRARY.rglob("*.py") if path.stem != "__init__"
)
#: Modules that have no test of their name yet. This list only shrinks: a module that gets one leaves it.
WITHOUT: frozenset[str] = frozenset(
    """
    admin/audited
    admin/dry_run
    admin/inspect
    admin/operate
    admin/run_job
    admin/schemas
    admin/search
    admin/service
    admin/timeline
    admission/producer
    admission/typed_message
    aws/blobs
    aws/functions
    aws/runtime
    aws/secrets
    aws/session
    aws/settings
    cli/__main__
    cli/completion
    cli/connection
    cli/dead_letters
    cli/definitions
    cli/history
    cli/main
    cli/openapi
    cli/printing
    cli/queues
    cli/send
    cli/tokens
    cli/work
    client/clients
    client/delivery
    client/errors
    client/model
    client/operations
    client/steps
    client/transport
    definitions/cel_engine
    definitions/language/compiler
    definitions/language/cost
    definitions/language/expression_text
    definitions/language/formatter
    definitions/language/functions
    definitions/language/grammar
    definitions/language/linking
    definitions/language/literals
    definitions/language/lowering
    definitions/language/message_types
    definitions/language/parser
    definitions/language/patterns
    definitions/language/queues
    definitions/language/settings
    definitions/language/source
    definitions/language/syntax
    definitions/language/targets
    definitions/language/tree
    definitions/language/typecheck
    definitions/language/vocabulary
    definitions/language/webhooks
    definitions/message_type
    definitions/model
    definitions/spelling
    engine/attempt_history
    engine/bury
    engine/counters
    engine/credits
    engine/drafts
    engine/filtered
    engine/finish
    engine/inspect
    engine/operate
    engine/poll
    engine/queue
    engine/retry
    engine/status
    engine/sweep
    engine/workflow_state
    history/checker
    history/log
    history/reader
    http/access
    http/errors
    http/fields
    http/openapi
    http/problems
    http/request
    http/response
    http/routes
    http/schemas
    model/admin_jobs
    model/audit
    model/body
    model/clock
    model/cursor
    model/errors
    model/ids
    model/keys
    model/message
    model/queue_spec
    model/queue_state
    model/strict_json
    model/tokens
    pull/api
    pull/claim_handles
    pull/dead_letters
    pull/dequeue
    pull/dispatcher
    pull/enqueue
    pull/finish
    pull/queues
    pull/service
    signatures/authentication
    signatures/challenges
    signatures/errors
    signatures/idempotency
    signatures/keys
    signatures/message
    signatures/presets
    signatures/request
    signatures/retained
    signatures/samples
    signatures/scheme
    signatures/secrets
    signatures/signing
    signatures/stored_secrets
    signatures/verification
    spark/actions
    spark/adaptive_throttle
    spark/connection
    spark/dead_letters
    spark/enqueue
    spark/files
    spark/lookup
    spark/metered_client
    spark/progress
    spark/report
    spark/row_mapping
    spark/rows
    spark/sources
    spark/work_items
    spark/writer
    stores/dynamodb/admin_jobs
    stores/dynamodb/audit
    stores/dynamodb/client
    stores/dynamodb/counters
    stores/dynamodb/dead_letters
    stores/dynamodb/enqueue_store
    stores/dynamodb/entries
    stores/dynamodb/items
    stores/dynamodb/messages
    stores/dynamodb/minimal_client
    stores/dynamodb/retrying_client
    stores/dynamodb/signing
    stores/dynamodb/statements
    stores/dynamodb/store
    stores/dynamodb/tables
    stores/dynamodb/tokens
    stores/interface
    stores/memory/admin
    stores/memory/queue
    stores/memory/tokens
    webhooks/accept
    webhooks/authenticate
    webhooks/endpoint
    webhooks/errors
    webhooks/request
    webhooks/responses
    webhooks/serve
    webhooks/sync_commands
    worker/commands
    worker/context
    worker/controls
    worker/counts
    worker/deployment
    worker/drainer
    worker/events
    worker/gate
    worker/gauges
    worker/heartbeat
    worker/middleware
    worker/outcome
    worker/rate_limiter
    worker/run
    worker/runners
    worker/slots
    worker/targets/address
    worker/targets/chain
    worker/targets/command
    worker/targets/connections
    worker/targets/http
    worker/targets/lambda_function
    worker/targets/plan
    worker/targets/request
    worker/time_left
    worker/wakeup
    worker/worker
    """.split()
)


def tests_of(module: str) -> list[Path]:
    folder, _, name = module.rpartition("/")
    return [*(TESTS / folder).glob(f"test_{name}.py"), *(TESTS / folder).glob(f"test_{name}_*.py")]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_a_test_of_its_name(module: str) -> None:
    if module in WITHOUT:
        assert not tests_of(module), f"{module} has a test now: take it from the list"
    else:
        assert tests_of(module), f"write tests/{module.rpartition('/')[0]}/test_{Path(module).name}.py"


def test_the_list_names_modules_that_exist() -> None:
    assert set(MODULES) >= WITHOUT, "take what is gone from the list"
