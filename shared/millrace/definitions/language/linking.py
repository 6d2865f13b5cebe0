"""Checks between definitions: names that must exist, cycles, queues that nobody feeds or drains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from millrace.definitions.language.queues import CheckedQueue
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, did_you_mean
from millrace.definitions.language.syntax import Word
from millrace.definitions.language.webhooks import CheckedWebhook, check_webhook_fields
from millrace.definitions.model import TargetKind
from millrace.definitions.unsigned import readers, unsigned_headers
from millrace.model.queue_spec import BODY_DAYS, Retention
from millrace.signatures.scheme import Scheme


def link(queues: dict[str, CheckedQueue], webhooks: dict[str, CheckedWebhook], scheduled: Collection[str] = ()) -> None:
    """Resolves every reference and completes what depends on another queue; `scheduled` queues have a schedule."""
    for queue in queues.values():
        if queue.dead_letter_queue is not None:
            _resolve(queue.dead_letter_queue, queue.settings, queues)
        _link_targets(queue, queues)
        _keep_dead_letters(queue, queues)
    for webhook in webhooks.values():
        _link_webhook(webhook, queues)
        _check_trust(webhook, queues)
    _refuse_dead_letter_cycles(queues)
    _warn_of_forwarding_cycles(queues)
    _warn_of_loose_ends(queues, webhooks, scheduled)
    _warn_of_short_lived_bodies(queues)


def check_commands(checked: Iterable[CheckedQueue | CheckedWebhook], registered: Collection[str]) -> None:
    """A command that nobody registers would fail with its first message."""
    for definition in checked:
        for mapping in definition.settings.mappings:
            name = mapping.destination
            if mapping.kind.text != TargetKind.COMMAND or not isinstance(name, Word) or name.text in registered:
                continue
            hint = did_you_mean(name.text, tuple(registered), f'write it: `@command("{name.text}")` in commands/')
            definition.settings.error(name.span, Code.REFERENCE, f"no module registers the command `{name.text}`", hint)


def _resolve(word: Word, settings: BlockReader, queues: dict[str, CheckedQueue]) -> CheckedQueue | None:
    found = queues.get(word.text)
    if found is None:
        hint = did_you_mean(word.text, tuple(queues), f"define it: `queue {word.text} {{ … }}`")
        settings.error(word.span, Code.REFERENCE, f"there is no queue `{word.text}`", hint)
    return found


def _link_targets(queue: CheckedQueue, queues: dict[str, CheckedQueue]) -> None:
    """A queue as a target must exist and get the fields that its message type asks for, no others."""
    for mapping in queue.settings.mappings:
        destination = mapping.destination
        if destination not in queue.target_queues or not isinstance(destination, Word):
            continue
        receiver = _resolve(destination, queue.settings, queues)
        if receiver is None or receiver.message_type is None or queue.message_type is None:
            continue
        fields = receiver.message_type.fields
        if mapping.fields is None:
            given = dict.fromkeys(queue.message_type.fields, destination.span)
        else:
            given = {field.name.text: field.name.span for field in mapping.fields}
        for name, span in given.items():
            if name not in fields:
                message = f"messages of `{destination.text}` have no field `{name}`"
                queue.settings.error(span, Code.TYPE, message, did_you_mean(name, tuple(fields)))
        missing = [name for name, field in fields.items() if name not in given and not field.optional]
        if missing:
            message = f"messages of `{destination.text}` also need {', '.join(missing)}"
            queue.settings.error(destination.span, Code.TYPE, message, f"add `{missing[0]}: …` to the mapping")


def _keep_dead_letters(queue: CheckedQueue, queues: dict[str, CheckedQueue]) -> None:
    """Dead letters are kept as long as the queue that is named for them keeps its messages."""
    name = queue.compiled["dead_letter_queue"]
    if name in queues:
        kept = queues[name].compiled["spec"]["retention"]["max_age_seconds"]
        queue.compiled["spec"]["retention"]["dead_letter_seconds"] = kept


def _link_webhook(webhook: CheckedWebhook, queues: dict[str, CheckedQueue]) -> None:
    if webhook.queue is None:
        return
    queue = _resolve(webhook.queue, webhook.settings, queues)
    if queue is not None:
        webhook.compiled["message_type"] = queue.compiled["message_type"]
        if queue.message_type is not None:
            check_webhook_fields(queue.message_type, queue.settings, queue.settings.types)


def _check_trust(webhook: CheckedWebhook, queues: dict[str, CheckedQueue]) -> None:
    """What a replayed or altered delivery could do that its signature does not forbid."""
    queue = None if webhook.queue is None else queues.get(webhook.queue.text)
    if webhook.scheme is None or queue is None:
        return
    _warn_of_unsigned_headers(webhook, webhook.scheme, queue)
    window, needed = queue.compiled["spec"]["idempotency"]["window_seconds"], webhook.scheme.replay_seconds or 0
    if window < needed:
        message = f"repeats are known for {window} s, but a delivery to `{webhook.name.text}` verifies for {needed} s"
        hint = f"write `idempotency {{ window_seconds: {needed} }}` in `{queue.name.text}`"
        webhook.settings.warning(webhook.name.span, Code.RANGE, f"{message}: it could run twice", hint)


def _warn_of_unsigned_headers(webhook: CheckedWebhook, scheme: Scheme, queue: CheckedQueue) -> None:
    for header, settings in unsigned_headers(scheme, readers(queue.compiled)).items():
        if header not in webhook.unsigned_headers:
            where = ", ".join(f"`{name}`" for name in dict.fromkeys(settings))
            message = f"{where} of `{queue.name.text}` reads the header `{header}`, which {scheme.name} does not sign"
            hint = f'read the payload instead, or write `unsigned_headers: ["{header}"]` in `{webhook.name.text}`'
            webhook.settings.warning(webhook.name.span, Code.UNSIGNED, message, hint)


def _cycles(edges: Mapping[str, tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    """Every way from a queue back to itself that starts at its first name in order, each once."""
    for start in edges:
        pending: list[tuple[str, ...]] = [(start,)]
        visited: set[str] = set()
        while pending:
            path = pending.pop()
            for following in edges.get(path[-1], ()):
                if following == start and start == min(path):
                    yield path
                    pending.clear()
                    break
                if following not in visited and following in edges:
                    visited.add(following)
                    pending.append((*path, following))


def _refuse_dead_letter_cycles(queues: dict[str, CheckedQueue]) -> None:
    edges = {
        name: () if queue.dead_letter_queue is None else (queue.dead_letter_queue.text,)
        for name, queue in queues.items()
    }
    for path in _cycles(edges):
        queue = queues[path[0]]
        if queue.dead_letter_queue is not None:
            way = " → ".join((*path, path[0]))
            hint = "let the last queue have no dead_letter_queue"
            message = f"dead letters go in a circle: {way}"
            queue.settings.error(queue.dead_letter_queue.span, Code.CYCLE, message, hint)


def _warn_of_forwarding_cycles(queues: dict[str, CheckedQueue]) -> None:
    edges = {name: tuple(word.text for word in queue.target_queues) for name, queue in queues.items()}
    for path in _cycles(edges):
        queue = queues[path[0]]
        way = " → ".join((*path, path[0]))
        hint = "a message goes round for ever unless a filter stops it"
        queue.settings.warning(queue.target_queues[0].span, Code.CYCLE, f"queues feed each other: {way}", hint)


def _warn_of_loose_ends(
    queues: dict[str, CheckedQueue], webhooks: dict[str, CheckedWebhook], scheduled: Collection[str]
) -> None:
    dead_letter_queues = {queue.dead_letter_queue.text for queue in queues.values() if queue.dead_letter_queue}
    fed = {word.text for queue in queues.values() for word in queue.target_queues} | dead_letter_queues
    fed |= {webhook.queue.text for webhook in webhooks.values() if webhook.queue} | set(scheduled)
    for name, queue in queues.items():
        if name not in fed and not queue.fed_by_api:
            hint = "name it in a webhook, a schedule or in `map_to: queue`, or say `fed_by: api`"
            queue.settings.warning(queue.name.span, Code.UNUSED, f"nobody feeds the queue `{name}`", hint)
        drained = queue.settings.mappings or queue.drained_by_api or name in dead_letter_queues
        if not drained:
            hint = "write `map_to: …`, or say `drained_by: api`"
            queue.settings.warning(queue.name.span, Code.UNUSED, f"nobody drains the queue `{name}`", hint)


def _warn_of_short_lived_bodies(queues: dict[str, CheckedQueue]) -> None:
    for name, queue in queues.items():
        days = Retention(**queue.compiled["spec"]["retention"]).body_days
        if days > BODY_DAYS:
            message = f"large bodies of the queue `{name}` are gone after {BODY_DAYS} days, and needed for {days}"
            hint = f"deploy with BodyDays={days} or more, or keep messages and dead letters for less time"
            queue.settings.warning(queue.name.span, Code.RANGE, message, hint)
