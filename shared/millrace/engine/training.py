"""How a dictionary is made: from what at least `SHARED_BY` messages have in common, and from nothing else.

A body is read as tokens: each key with the punctuation around it, each value whole, an address also by its folder.
Only tokens that many messages share go in, and two beside each other only where that pair is shared too. So a
dictionary holds nobody's own data, and a message that is erased leaves nothing in it.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from millrace.model.dictionary import MAX_CONTENT

#: What fewer messages share stays out.
SHARED_BY = 20
#: Shorter than this is not worth a reference.
SHORTEST = 4

_STRING = rb'"(?:[^"\\]|\\.)*+"'
#: A key with what comes before it, a string, a number or a word, punctuation. Possessive, so that no text is slow.
_TOKEN = re.compile(rb"[\s,{}\[\]]*+" + _STRING + rb"\s*+:\s*+|" + _STRING + rb'|[^\s,{}\[\]":]++|[\s,{}\[\]:]++')
#: Of an address all but what follows its last slash.
_ADDRESS = re.compile(rb'("[a-z]++://(?:[^/"\\]++/)*+)')

Run = tuple[bytes, ...]


def make_content(bodies: Sequence[bytes]) -> bytes:
    """The content of a dictionary for bodies like these, which must be JSON; empty where they share too little.

    The same bodies give the same content. What is worth most comes last, where references to it are shortest.
    """
    chosen: list[bytes] = []
    room, there = MAX_CONTENT, b""
    for text in _covering(_Shared(bodies)):
        if SHORTEST <= len(text) <= room and text not in there:
            chosen.append(text)
            there += b"\n" + text
            room -= len(text)
    return b"".join(reversed(chosen))


class _Shared:
    """What many bodies have in common."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        documents = [_TOKEN.findall(body) for body in bodies]
        whole = _common(documents)
        documents = [list(_split(document, whole)) for document in documents]
        self.tokens = _common(documents)
        self.pairs = _common(pairwise(document) for document in documents)
        self.runs = {run for document in documents for run in self._runs(document)}

    def _runs(self, document: Sequence[bytes]) -> Iterator[Run]:
        """The longest stretches of a document that are shared, token by token and pair by pair."""
        run: list[bytes] = []
        for token in document:
            if run and (token not in self.tokens or (run[-1], token) not in self.pairs):
                yield tuple(run)
                run = []
            if token in self.tokens:
                run.append(token)
        if run:
            yield tuple(run)

    def worth(self, run: Run) -> int:
        """Bytes of all messages that it stands for."""
        if len(run) == 1:
            return self.tokens[run[0]] * len(run[0])
        return sum(self.pairs[pair] * len(pair[1]) for pair in pairwise(run))


def _split(document: Iterable[bytes], whole: Container[bytes]) -> Iterator[bytes]:
    """The tokens, an address that is not shared as one that begins like others: up to its last slash, and the rest."""
    for token in document:
        if token in whole or b"://" not in token:
            yield token
        else:
            yield from filter(None, _ADDRESS.split(token))


def _common(documents: Iterable[Iterable[Any]]) -> dict[Any, int]:
    """What at least `SHARED_BY` of the documents hold, and how many do."""
    counted = Counter(found for document in documents for found in set(document))
    return {found: count for found, count in counted.items() if count >= SHARED_BY}


def _covering(shared: _Shared) -> Iterator[bytes]:
    """Runs that hold every shared pair once, those that stand for most first."""
    covered: set[tuple[bytes, ...]] = set()
    waiting = [(-shared.worth(run), run) for run in shared.runs]
    heapq.heapify(waiting)
    while waiting:
        _, run = heapq.heappop(waiting)
        fresh = list(_uncovered(run, covered))
        if fresh != [run]:
            for part in fresh:
                heapq.heappush(waiting, (-shared.worth(part), part))
            continue
        covered.update(pairwise(run), ((token,) for token in run))
        yield b"".join(run)


def _uncovered(run: Run, covered: set[tuple[bytes, ...]]) -> Iterator[Run]:
    """The stretches of a run whose pairs are all new."""
    if len(run) == 1:
        if run not in covered:
            yield run
        return
    part: list[bytes] = []
    for pair in pairwise(run):
        if pair in covered:
            if part:
                yield tuple(part)
            part = []
        elif part:
            part.append(pair[1])
        else:
            part = list(pair)
    if part:
        yield tuple(part)
