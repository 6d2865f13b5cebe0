"""Text in, compiled JSON and findings out. Never raises for what an author wrote, whatever the bytes are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from millrace.definitions.language import syntax
from millrace.definitions.language.linking import check_commands, link
from millrace.definitions.language.parser import Parsed, decode, parse
from millrace.definitions.language.queues import CheckedQueue, check_queue
from millrace.definitions.language.schedules import CheckedSchedule, check_schedule, link_schedules
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, Diagnostic, Diagnostics, Severity
from millrace.definitions.language.tenants import CheckedTenant, check_tenant, link_tenants
from millrace.definitions.language.webhooks import CheckedWebhook, check_webhook
from millrace.definitions.loading import FORMAT


@dataclass(frozen=True, slots=True)
class Compilation:
    """The outcome for all files together."""

    definitions: dict[str, Any] | None  #: None where there are errors
    findings: list[Diagnostic]

    @property
    def errors(self) -> list[Diagnostic]:
        return [found for found in self.findings if found.severity is Severity.ERROR]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [found for found in self.findings if found.severity is Severity.WARNING]

    @property
    def text(self) -> str:
        """The compiled JSON as it lies in the repository: stable, one change a line."""
        return json.dumps(self.definitions, indent=2, ensure_ascii=False) + "\n"


def compile_files(files: Iterable[tuple[str, bytes]], commands: Collection[str] | None = None) -> Compilation:
    """Compiles files, given as path and bytes, into one set of definitions.

    `commands` are those that the app's modules register: any other that a file names is an error. None asks nothing.
    """
    compiler = _Compiler(commands)
    for path, data in files:
        compiler.add(parse(decode(path, data, compiler.report), compiler.report))
    return compiler.finish()


class _Compiler:
    def __init__(self, commands: Collection[str] | None = None) -> None:
        self.report = Diagnostics()
        self._commands = commands
        self._queues: dict[str, CheckedQueue] = {}
        self._webhooks: dict[str, CheckedWebhook] = {}
        self._tenants: dict[str, CheckedTenant] = {}
        self._schedules: dict[str, CheckedSchedule] = {}

    def add(self, parsed: Parsed) -> None:
        top = BlockReader(parsed, self.report, "file", parsed.file.blocks)
        for block in top.blocks.get("app", ()):
            name = top.label(block)
            app = BlockReader(parsed, self.report, "app", block.members)
            for queue in app.blocks.get("queue", ()):
                self._add_queue(queue, "" if name is None else name.text, app)
            for webhook in app.blocks.get("webhook", ()):
                self._add_webhook(webhook, "" if name is None else name.text, app)
            for tenant in app.blocks.get("tenant", ()):
                self._add_tenant(tenant, app)
            for schedule in app.blocks.get("schedule", ()):
                self._add_schedule(schedule, "" if name is None else name.text, app)

    def _add_schedule(self, block: syntax.Block, app: str, outer: BlockReader) -> None:
        name = outer.label(block)
        if name is None:
            return
        if name.text in self._schedules:
            self._refuse_second("schedule", name, outer, self._schedules[name.text].settings)
        checked = check_schedule(name, app, BlockReader(outer.parsed, self.report, "schedule", block.members))
        self._schedules.setdefault(name.text, checked)

    def _add_tenant(self, block: syntax.Block, outer: BlockReader) -> None:
        checked = check_tenant(block, outer)
        if checked is None:
            return
        if checked.name.text in self._tenants:
            self._refuse_second("tenant", checked.name, outer, self._tenants[checked.name.text].settings)
        self._tenants.setdefault(checked.name.text, checked)

    def _add_queue(self, block: syntax.Block, app: str, outer: BlockReader) -> None:
        name = outer.label(block)
        if name is None:
            return
        if name.text in self._queues:
            self._refuse_second("queue", name, outer, self._queues[name.text].settings)
        checked = check_queue(name, app, BlockReader(outer.parsed, self.report, "queue", block.members))
        self._queues.setdefault(name.text, checked)

    def _add_webhook(self, block: syntax.Block, app: str, outer: BlockReader) -> None:
        name = outer.label(block)
        if name is None:
            return
        if name.text in self._webhooks:
            self._refuse_second("webhook", name, outer, self._webhooks[name.text].settings)
        checked = check_webhook(name, app, BlockReader(outer.parsed, self.report, "webhook", block.members))
        self._webhooks.setdefault(name.text, checked)

    def _refuse_second(self, kind: str, name: syntax.Word, outer: BlockReader, first: BlockReader) -> None:
        where = f"the first is in {first.parsed.source.path}"
        message = f"there are two {kind}s named `{name.text}`"
        outer.error(name.span, Code.DUPLICATE, message, f"{where}: rename one of them")

    def finish(self) -> Compilation:
        link(self._queues, self._webhooks, {word.text for one in self._schedules.values() if (word := one.queue)})
        link_tenants(self._tenants, self._webhooks)
        link_schedules(self._schedules, self._queues, tuple(self._tenants))
        if self._commands is not None:
            check_commands([*self._queues.values(), *self._webhooks.values()], self._commands)
        findings = self.report.sorted
        if any(found.severity is Severity.ERROR for found in self.report.findings):
            return Compilation(None, findings)
        definitions = {
            "format": FORMAT,
            "queues": {name: self._queues[name].compiled for name in sorted(self._queues)},
            "webhooks": {name: self._webhooks[name].compiled for name in sorted(self._webhooks)},
            "schedules": {name: self._schedules[name].compiled for name in sorted(self._schedules)},
            "tenants": {name: self._tenants[name].secrets for name in sorted(self._tenants)},
        }
        return Compilation(definitions, findings)
