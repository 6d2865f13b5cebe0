"""The handler of a queue with targets: render the message for each, deliver it, record what succeeded.

A queue with one target writes nothing besides its ack. Where there are several and one of them fails, those that
succeeded are recorded in the message's workflow state, under the claim, before the failure is; the
next attempt goes only to those that are left. So each target is retried on its own, and the message is done when
all of them are. (A worker that dies after a delivery and before that write delivers it again: at least once.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from millrace.admission.rendering import read_message, render
from millrace.definitions import QueueDefinition, Target, TargetKind
from millrace.handlers.batches import BatchSettings, Outcome
from millrace.handlers.controls import Control, Reject, Retry, Snooze, Unavailable
from millrace.model.errors import StoreUnavailable
from millrace.worker.breaker import Breakers
from millrace.worker.context import RunContext
from millrace.worker.targets.request import Deliver, DeliverBatch, TargetRequest, Throttled

DONE, REJECTED = "done", "rejected"
#: DynamoDB bounds an attribute's name; so many characters tell targets apart.
NAME_CHARACTERS = 200


def target_name(target: Target) -> str:
    """The name of a target in statistics, logs and breakers."""
    return f"{target.kind}:{target.name}"[:NAME_CHARACTERS]


class TargetPlan:
    """Delivers each message of a queue to every target of its definition."""

    def __init__(
        self, definition: QueueDefinition, deliveries: Mapping[TargetKind, Deliver], breakers: Breakers
    ) -> None:
        self._definition = definition
        self._targets = definition.targets
        self._deliveries = deliveries
        self._breakers = breakers

    def __call__(self, context: RunContext) -> Any:
        message = read_message(self._definition, context.message, context.body)
        if len(self._targets) == 1:
            return self._deliver(context, 0, message)
        return self._deliver_all(context, message)

    @property
    def batch(self) -> BatchSettings | None:
        """How many messages go to the target at once; None where they go singly, as they do to several targets."""
        target, *others = self._targets
        delivery = self._deliveries.get(target.kind)
        return delivery.batch_of(target.name) if not others and isinstance(delivery, DeliverBatch) else None

    def deliver_batch(self, contexts: Sequence[RunContext]) -> list[Outcome]:
        """Render each message for the one target, and hand over together what could be rendered."""
        (target,) = self._targets
        delivery = cast("DeliverBatch", self._deliveries[target.kind])
        outcomes: dict[int, Outcome] = {}
        items: list[tuple[Any, RunContext]] = []
        for position, context in enumerate(contexts):
            try:
                message = read_message(self._definition, context.message, context.body)
                context.input = self._rendered(context, target, message)
                items.append((context.input, context))
            except Exception as error:  # noqa: BLE001 (one message that cannot be rendered keeps no other waiting)
                outcomes[position] = Outcome(error=error)
        found = delivery.run_batch(target.name, items) if items else []
        # What the call raised as a whole is one failure, whatever it was given.
        for said in {id(outcome.error): outcome.error for outcome in found}.values():
            down = isinstance(said, (Throttled, Unavailable))
            (self._breakers.failed if down else self._breakers.answered)(target_name(target))
        left = iter(found)
        return [outcomes[n] if n in outcomes else next(left) for n in range(len(contexts))]

    def _deliver_all(self, context: RunContext, message: dict[str, Any]) -> Any:
        """Deliver to every target that is left; raises only once all were tried."""
        seen_before = context.claim.entry.deliveries > 1
        progress = self._progress(context) if seen_before else {}
        before = dict(progress)
        failures: list[Exception] = []
        results: dict[str, Any] = {}
        staging: list[str] = []
        for index, target in enumerate(self._targets):
            if str(index) in progress:
                continue
            staged = len(context.staged.writes)
            try:
                results[target_name(target)] = self._deliver(context, index, message)
                progress[str(index)] = DONE
                if len(context.staged.writes) > staged:
                    staging.append(str(index))
            except Reject as rejection:
                progress[str(index)] = f"{REJECTED}: {rejection.reason}"[:500]
            except Exception as failure:  # noqa: BLE001 (any failure of one target must not keep the others waiting)
                failures.append(failure)
        if failures:
            for name in staging:  # its writes are made with the ack, which is not now: it has to stage them again
                del progress[name]
            if progress != before:
                context.state.write_targets(progress)
            raise _failure_to_record(failures)
        rejections = [outcome for outcome in progress.values() if outcome != DONE]
        if rejections:
            raise Reject("; ".join(rejections))
        return results

    def _progress(self, context: RunContext) -> dict[str, Any]:
        """The outcome of each target in earlier runs. Raises Snooze while it cannot be read."""
        try:
            return context.state.targets()
        except StoreUnavailable as error:
            raise context.unreadable(error) from error

    def _rendered(self, context: RunContext, target: Target, message: dict[str, Any]) -> Any:
        """What the target is given. Raises Snooze while it is down."""
        given = render(target, message)
        name = target_name(target)
        held_until = self._breakers.held_back_until(name)
        if held_until is not None:
            wait = (held_until - context.queue.now()) / 1000
            raise Snooze(after=max(0.0, wait), reason=f"{name} is down; it was not called.")
        return given

    def _deliver(self, context: RunContext, index: int, message: dict[str, Any]) -> Any:
        target = self._targets[index]
        given = self._rendered(context, target, message)
        name = target_name(target)
        moment = datetime.fromtimestamp(context.queue.now() / 1000, UTC)
        secrets = target.secrets_at(moment) if target.secrets else None
        request = TargetRequest(target.name, given, index, len(self._targets) > 1, secrets)
        try:
            result = self._deliveries[target.kind](context, request)
        except (Throttled, Unavailable):
            self._breakers.failed(name)
            raise
        except Exception:
            # It answered, or the message's own work failed: neither says that the target is down.
            self._breakers.answered(name)
            raise
        self._breakers.answered(name)
        return result


def _failure_to_record(failures: list[Exception]) -> Exception:
    """What to record for several failures: one that charges before one that only waits."""
    charged = [failure for failure in failures if not isinstance(failure, Control) or isinstance(failure, Retry)]
    return (charged or failures)[0]
