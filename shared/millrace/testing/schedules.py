"""Which fault comes where: a schedule is a list of numbers, so that each can be repeated and all be gone through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from millrace.model.errors import StoreUnavailable
from millrace.stores.interface import Unknown

#: Store calls whose answer can be lost, and what the caller then sees: a list of unknowns, one, or nothing.
LISTS = frozenset({"put_entries", "put_messages", "drop_entries", "claim_entries", "end_entries", "hold_entries"})
ONES = frozenset({"replace_message", "withdraw_entry", "move_entry", "bury_entry", "erase_message"})
ONES |= {"put_workflow_state", "transact", "end_together"}
NOTHING = {"settle": None, "repair_depth": False, "set_pace": False}


class ScheduledFault(StrEnum):
    """What becomes of a process at one point of its way."""

    NONE = ""
    DEATH = "dies before"  #: nothing after this happens in this process
    LOSS = "gets no answer to"  #: it happens, and the process cannot know
    STALL = "stands still before"  #: until its claim is over and another process is done; then it goes on


@dataclass(slots=True)
class Schedule:
    """One way through: what was chosen at every point, out of how many."""

    prefix: Sequence[int] = ()
    faults: int = 1  #: how many may still come
    chosen: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)

    def choose(self, options: Sequence[ScheduledFault]) -> ScheduledFault:
        """The fault at the next point; the first option is none."""
        number, width = len(self.chosen), len(options) if self.faults else 1
        choice = min(self.prefix[number], width - 1) if number < len(self.prefix) else 0
        self.chosen.append(choice)
        self.widths.append(width)
        self.faults -= choice > 0
        return options[choice]

    @property
    def short(self) -> list[int]:
        """What repeats it: the choices without the zeros at the end."""
        last = max((number for number, choice in enumerate(self.chosen) if choice), default=-1)
        return self.chosen[: last + 1]


def every_schedule(faults: int, run: Callable[[Schedule], None]) -> Iterator[Schedule]:
    """Run every schedule with up to so many faults, depth first; yields each once it is over."""
    prefix: list[int] | None = []
    while prefix is not None:
        schedule = Schedule(prefix, faults)
        run(schedule)
        yield schedule
        prefix = next_prefix(schedule.chosen, schedule.widths)


def next_prefix(chosen: Sequence[int], widths: Sequence[int]) -> list[int] | None:
    """The next schedule in order: the last choice that has another option takes it."""
    for number in range(len(chosen) - 1, -1, -1):
        if chosen[number] + 1 < widths[number]:
            return [*chosen[:number], chosen[number] + 1]
    return None


def without_answer(call: str, answer: Any) -> Any:
    """What the caller of a store gets where the answer is lost. Raises StoreUnavailable for what has no such value."""
    # Made anew each time: an exception that is raised again keeps every traceback that it ever had.
    silence = StoreUnavailable("the answer was lost")
    if call in LISTS:
        return [Unknown(silence)] * len(answer)
    if call in ONES:
        return Unknown(silence)
    if call in NOTHING:
        return NOTHING[call]
    raise silence
