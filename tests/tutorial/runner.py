"""Runs a page of the docs as somebody would who types it: its files, its commands, and what they are said to print."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"(?:^`([\w./-]+)`:\n\n)?^```([a-z]+)(?: (\w+))?\n(.*?)^```$", re.M | re.S)
PATIENCE_S = 300
READY_S = 120


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: a file's text where a name stands before it, else commands with what they print."""

    language: str
    text: str
    file: str = ""
    terminal: str = ""


def blocks(page: str) -> Iterator[Block]:
    for file, language, terminal, text in BLOCK.findall(page):
        yield Block(language, text, file, terminal)


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines that must be among what it prints; `…` stands for anything."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


@dataclass
class Reader:
    """Somebody at a terminal: a folder, variables, and programs left running."""

    folder: Path
    environment: dict[str, str]
    replace: Mapping[str, str] = field(default_factory=dict)  #: words of the page for what stands for them here
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def read(self, page: str) -> None:
        """Do everything that the page says. Raises AssertionError at the first command that does otherwise."""
        for block in blocks(page):
            if block.file:
                path = self.folder / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, "utf-8")
            elif block.language == "console":
                for command, shown in commands(block):
                    self._leave_running(command) if block.terminal else self.run(command, shown)

    def _here(self, command: str) -> str:
        for word, stand_in in self.replace.items():
            command = command.replace(word, stand_in)
        return command

    def run(self, command: str, shown: Sequence[str] = ()) -> None:
        """Type one command. Raises AssertionError where it fails or does not print what is shown."""
        state = self.folder.parent / ".state"
        script = f"{self._here(command)}\ncode=$?; pwd > {state}; env -0 >> {state}; exit $code"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\nended with {done.returncode}"
        for line in shown:
            pattern = ".*".join(re.escape(part) for part in line.split("…"))
            assert re.search(pattern, done.stdout), f"$ {command}\nprinted\n{done.stdout}\nand not\n{line}"
        folder, _, rest = state.read_text("utf-8").partition("\n")
        self.folder = Path(folder)
        self.environment = dict(pair.split("=", 1) for pair in rest.split("\0") if "=" in pair)

    def _leave_running(self, command: str) -> None:
        log = self.folder.parent / "dev.log"
        with log.open("wb") as output:
            self._running.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {self._here(command)}"],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        end = time.monotonic() + READY_S
        while "Ctrl-C stops" not in log.read_text("utf-8", "replace"):
            assert self._running[-1].poll() is None, log.read_text("utf-8", "replace")
            assert time.monotonic() < end, log.read_text("utf-8", "replace")
            time.sleep(0.05)

    def leave(self) -> None:
        """Ctrl-C for everything that still runs."""
        for process in self._running:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGINT)
                process.wait(60)
