"""The docs are held to the code: what they name exists, and what they show compiles and runs."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from millrace.cli.main import main
from millrace.definitions import TargetKind, load
from millrace.definitions.language.compiler import compile_files
from millrace.definitions.language.vocabulary import VOCABULARY
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.message import Draft
from millrace.signatures import PRESETS
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.worker import Commands, TimeLeft
from millrace.worker.drainer import QueueDrainer, WakeRequest

ROOT = Path(__file__).resolve().parents[1]
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SUFFIXES = (".py", ".json", ".yaml", ".toml", ".md", ".txt", ".in", ".millrace", ".png")
TOP = ("functions/", "shared/", "infra/", "tests/", "events/")
#: Written by a run, or by a reader.
MADE = re.compile(
    r"\.local/|\.millrace/|dist/|\.venv|REPORT/|reports/|s3://|NAME\.|summary\.json|rows\.jsonl|job\.(json|py)|\.in$"
)


#: Typed whole, command by command, by tests/tutorial: it speaks of an app's own files.
EXECUTED = ("infra/TUTORIAL.md",)


class Code(NamedTuple):
    """A piece of code in a page."""

    page: str
    language: str
    text: str


@cache
def tracked() -> frozenset[str]:
    found = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    return frozenset(name for name in found.stdout.decode().splitlines() if (ROOT / name).exists())


@cache
def pages() -> dict[str, str]:
    return {name: (ROOT / name).read_text("utf-8") for name in sorted(tracked()) if name.endswith(".md")}


def checked_pages() -> dict[str, str]:
    return {page: text for page, text in pages().items() if page not in EXECUTED}


def blocks(*languages: str) -> Iterator[Code]:
    for page, text in checked_pages().items():
        for language, body in FENCED.findall(text):
            if language in languages:
                yield Code(page, language, body)


def words() -> Iterator[Code]:
    """Every piece of inline code."""
    for page, text in checked_pages().items():
        for found in INLINE.findall(FENCED.sub("", text)):
            yield Code(page, "", found)


def commands() -> Iterator[Code]:
    """Everything that a reader may type."""
    yield from words()
    for code in blocks("console"):
        for line in code.text.replace("\\\n", " ").splitlines():
            yield code._replace(text=line.strip().removeprefix("$ "))


def folders() -> set[str]:
    return {parent.as_posix() for name in tracked() for parent in Path(name).parents}


def test_every_path_in_the_docs_exists() -> None:
    missing = []
    for page, _, text in words():
        if re.search(r"[\s<{…,=:\"]", text) or MADE.search(text) or text.startswith(("/", "*")):
            continue
        if "*" in text:
            found = any(ROOT.glob(text)) or "/" not in text
        elif text.endswith(SUFFIXES):
            found = any(name == text or name.endswith(f"/{text}") for name in tracked())
        elif text.startswith(TOP):
            found = text.rstrip("/") in folders() | tracked()
        else:
            continue
        if not found:
            missing.append((page, text))
    assert missing == []


def test_every_link_in_the_docs_leads_somewhere() -> None:
    broken = []
    for page, text in pages().items():
        for link in LINK.findall(FENCED.sub("", text)):
            if "://" in link:
                continue
            place, _, anchor = link.partition("#")
            target = ((ROOT / page).parent / place).resolve() if place else ROOT / page
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.M) if anchor and target.exists() else []
            if not target.exists() or (anchor and anchor not in {slug(heading) for heading in headings}):
                broken.append((page, link))
    assert broken == []


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_make_target_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = {
        (page, name) for page, _, text in commands() for name in re.findall(r"(?:^|; |&& )make ([a-z0-9-]+)", text)
    }
    assert {(page, name) for page, name in named if name not in targets} == set()
    assert {name for _, name in named} >= {"run", "test", "deploy", "lock"}


def test_every_module_in_the_docs_can_be_imported() -> None:
    for page, _, text in commands():
        for name in re.findall(r"^millrace(?:\.\w+)+$", text) + re.findall(r"python -m ([\w.]+)", text):
            assert resolved(name), f"{page}: {name}"


def resolved(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    path = ROOT / name.replace(".", "/")
    if name.startswith(("tests.", "functions.")):
        return path.with_suffix(".py").exists() or (path / "__main__.py").exists()
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(module), attribute)
    return True


def test_every_command_of_the_docs_exists_with_its_options() -> None:
    seen = set()
    for page, _, text in commands():
        for typed in re.findall(r"(?:^|(?<!from)[/ (=])millrace ([a-z][^|&);]*)", text):
            name, *rest = shlex.split(typed.replace("…", ""), comments=True, posix=False)
            command: Any = main.commands.get(name)
            assert command, f"{page}: millrace {name}"
            if isinstance(command, click.Group) and rest and rest[0] in command.commands:
                command = command.commands[rest[0]]
            known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
            unknown = {word for word in rest if re.match(r"--?[a-z]", word)} - known
            assert not unknown or name == "dev", f"{page}: millrace {typed}: {unknown}"
            seen.add(name)
    assert len(seen) > 10


def test_json_in_the_docs_is_json() -> None:
    shown = list(blocks("json"))
    assert shown
    for code in shown:
        json.loads(code.text)


def test_definitions_in_the_docs_compile_without_a_finding() -> None:
    shown = list(blocks("millrace"))
    assert shown
    for code in shown:
        assert compile_files([(code.page, code.text.encode())]).findings == []


def test_python_in_the_docs_imports_what_is_there() -> None:
    shown = list(blocks("python"))
    assert len(shown) >= 3
    for code in shown:
        for node in ast.walk(ast.parse(code.text)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, name.name) for name in node.names), f"{code.page}: {ast.unparse(node)}"


def test_the_first_screen_of_the_readme_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its definition, its handler and one message, on the store in memory."""
    registered = Commands()
    monkeypatch.setattr("millrace.command", registered.command)
    definition, handler = (next(blocks(language)) for language in ("millrace", "python"))
    assert definition.page == handler.page == "README.md"
    definitions = load(compile_files([("README.md", definition.text.encode())]).text.encode())
    exec(compile(handler.text, "README.md", "exec"), {})  # noqa: S102 (our own page)
    runtime = Runtime(MemoryStore(), MemoryBlobs())
    drainer = QueueDrainer(runtime, definitions, {TargetKind.COMMAND: registered.deliver})
    queue = drainer.queue("default", "WebhookIngress")
    body = json.dumps({"event": {"data": {"title": "Low water", "urgency": "high"}}}).encode()
    message_id = enqueue(queue, Draft(body, source="webhook:PagerDutyAlert")).message_id
    drainer.drain(WakeRequest("default", "WebhookIngress"), TimeLeft())
    found = status(queue, message_id)
    assert found.status is MessageStatus.DONE
    assert found.result is not None
    assert json.loads(found.result.snapshot) == {"title": "Low water", "severity": "critical", "fence": 1}


def test_the_readme_stays_short() -> None:
    text = pages()["README.md"]
    assert len(text.split()) <= 1_500
    assert len(text.splitlines()) <= 210


def test_every_alarm_and_parameter_of_the_template_is_described() -> None:
    template, page = (ROOT / "template.yaml").read_text("utf-8"), pages()["infra/README.md"]
    alarms = set(re.findall(r"AlarmName: !Sub \$\{AWS::StackName\}-([\w-]+)", template))
    described = {name for row in rows(page, "alarm") for name in row[0].split(", ")}
    assert described == alarms
    parameters = set(
        re.findall(r"^  (\w+):$", template.partition("\nParameters:\n")[2].partition("\nConditions:")[0], re.M)
    )
    assert {name for row in rows(page, "parameter") for name in row[0].split(" · ")} == parameters


def test_every_setting_and_provider_of_the_language_is_described() -> None:
    page = pages()["shared/millrace/definitions/README.md"]
    settings = {
        word for kind, inside in VOCABULARY.items() if kind != "file" for word in (*inside.properties, *inside.blocks)
    }
    assert {name for name in settings if not re.search(rf"\b{name}\b", page)} == set()
    assert {name for name in PRESETS if not re.search(rf"\b{name}\b", page)} == set()


def rows(page: str, heading: str) -> list[list[str]]:
    """The rows of the table whose first column has that heading."""
    lines = page.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_the_map_shows_the_packages_in_the_order_of_their_imports() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    shown = [set(INLINE.findall(row[0])) for row in rows(pages()["ARCHITECTURE.md"], "package")]
    assert shown == [{f"millrace.{name.strip()}" for name in layer.split("|")} for layer in layers]


def test_the_docs_are_written_in_plain_words() -> None:
    archaic = r"\b(befell|whereabouts|deeds?|hither|whence|purse|summons?|intake|parcel|keeper|turned away)\b"
    found = {(page, word) for page, text in pages().items() for word in re.findall(archaic, text, re.I)}
    assert found == set()
