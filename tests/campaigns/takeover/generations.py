"""Generations of one application: who runs each part, and what comes out of all of them.

Written as letters: L logstate, C the same with ``group_protocol="classic"``; J Kafka Streams on the
JVM, j the same without the disk it had, S the same in a group of the ``streams`` protocol; a minus
sign where the one before just goes on. An exclamation mark: it is killed in the middle.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import chain, islice, product
from pathlib import Path
from typing import NamedTuple

from tests.campaigns.takeover.process import Running, running
from tests.campaigns.takeover.scripts import Chunk, script
from tests.campaigns.takeover.topologies import BEHIND_TOPICS, READS
from tests.campaigns.takeover.world import Output, World

#: no output for so long, after the inputs are committed, is the end of a chunk
_QUIET_S = 0.4
_QUIET_BEHIND_TOPICS_S = 1.2
#: after how long brokers miss Kafka Streams: late, so that it outlives pauses of the machine, but
#: soon where it is killed and waited for
_MISSED_AFTER_MS = 120_000
_MISSED_SOON_AFTER_MS = 10_000
#: letter: the library, and its group's protocol
_MEMBERS = {
    "J": ("J", "classic"),
    "S": ("J", "streams"),
    "L": ("L", "consumer"),
    "C": ("L", "classic"),
}


class Generation(NamedTuple):
    """One process: how many parts it runs, how it begins and how it ends."""

    library: str
    group_protocol: str
    parts: int = 1
    is_killed: bool = False
    loses_disk: bool = False


class Outcome(NamedTuple):
    """What came out, and what tells apart runs that were killed."""

    outputs: list[Output]
    #: records of the chunk in which one was killed that it had committed; None where none was
    killed_behind: int | None


def generations(who: str) -> list[Generation]:
    """The processes that letters stand for.

    >>> generations("J-!j")
    [Generation(library='J', group_protocol='classic', parts=2, is_killed=True, loses_disk=False), \
Generation(library='J', group_protocol='classic', parts=1, is_killed=False, loses_disk=True)]
    """
    found: list[Generation] = []
    for letter in who:
        if letter == "!":
            found[-1] = found[-1]._replace(is_killed=True)
        elif letter == "-":
            found[-1] = found[-1]._replace(parts=found[-1].parts + 1)
        else:
            found.append(Generation(*_MEMBERS[letter.upper()], loses_disk=letter == "j"))
    return found


def controls(who: str) -> Iterator[str]:
    """The same parts by Kafka Streams alone: restarted, going on, or restarted without its disk."""
    count = sum(letter != "!" for letter in who)
    changes = product("J-j", repeat=count - 1)
    yield from ("J" + "".join(later) for later in sorted(changes, key=lambda one: len(set(one))))
    if "!" in who:
        yield from (f"J!{later}" for later in ("J", "j"))


def run(
    bootstrap: str,
    application_id: str,
    folder: Path,
    topology: str,
    who: str,
    killed_behind: int | None = None,
) -> Outcome:
    """What comes out when ``who`` runs one part after the other.

    Who is killed, is when it has committed ``killed_behind`` records of a chunk, as another was
    before; None: while it works on the chunk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    world = World(bootstrap, application_id, folder)
    runs = generations(who)
    left_over: list[Chunk] = []
    is_behind = False
    committed: int | None = None
    coming = iter(script(topology, sum(generation.parts for generation in runs)))
    try:
        for library, group_protocol, count, is_killed, loses_disk in runs:
            waiting = [*left_over, *chain.from_iterable(islice(coming, count))]
            state = folder / library
            if library == "J" and (folder / "L.log").exists():
                world.wait_until_nobody_lives()
            if loses_disk:
                shutil.rmtree(state, ignore_errors=True)
            missed_after_ms = _MISSED_SOON_AFTER_MS if is_killed else _MISSED_AFTER_MS
            how = (group_protocol, str(missed_after_ms))
            arguments = (bootstrap, application_id, str(state), topology, *how)
            with running(library, arguments, folder / f"{library}.log") as process:
                if is_behind:  # what the killed one was given is worked off before more comes
                    world.drain(READS[topology], process, quiet_s=_quiet_s(topology))
                is_behind = is_killed
                kill_at = len(waiting) // 2 if is_killed else len(waiting)
                for chunk in waiting[:kill_at]:
                    world.send(chunk)
                    world.drain(READS[topology], process, quiet_s=_quiet_s(topology))
                left_over = waiting[kill_at + 1 :]
                if is_killed:
                    committed = _kill(world, topology, process, waiting[kill_at], killed_behind)
        return Outcome(world.outputs, committed)
    finally:
        world.close()


def _kill(world: World, topology: str, process: Running, chunk: Chunk, behind: int | None) -> int:
    """Kill it, with a chunk before it; returns how many records of the chunk it committed."""
    if behind is None:
        world.send(chunk)
    else:
        world.send(chunk[:behind])
        world.drain(READS[topology], process, quiet_s=_quiet_s(topology))
    process.kill()
    left = world.left_behind(READS[topology])
    if behind is None:
        return len(chunk) - left
    assert left == 0, "it was killed when all was committed"
    world.send(chunk[behind:])
    return behind


def _quiet_s(topology: str) -> float:
    return _QUIET_BEHIND_TOPICS_S if topology in BEHIND_TOPICS else _QUIET_S
