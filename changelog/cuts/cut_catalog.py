"""The topics of an application's named cuts: the list of the cuts, their copies, and claims.

How it works: whoever makes a cut first makes its claim, an empty topic. Brokers make a topic once,
and tell who asked for it first, so of several who begin at the same moment one goes on and the
others are refused. A claim is held while its topic has the id that it was made with. It goes last:
after the record that names the cut, or after the copies that are given up.

Invariants: copies are made, and the record is written, by who holds the claim. The record is
written when the copies are complete and counted, and goes before they do. Who has lost its claim,
to ``give_up``, deletes what it knows to be its own by the ids of the topics, and more only where
nobody else has the claim. A crash between leaves topics without a record, which ``give_up``
removes, the claim among them.

Not covered: a maker that stands still between its look at the claim and the record, while its cut
is deleted and another one of the name is made. Its record hides the other's and is taken back: that
cut is gone then, and its copies are listed as half made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from logstate.changelog.cuts.named_cut import NamedCut, is_copy
from logstate.contracts.clients import Admin, NewTopic, PlainProducer
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, LogstateError, RestoreError, TopicError
from logstate.contracts.records import ProducedRecord
from logstate.contracts.topic_names import cut_claim_topic, cut_copies, named_cuts_topic

_LOGGER = logging.getLogger(__name__)

_NAMES = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
#: for how long a topic that was made may be unknown to the broker that is asked
_UNKNOWN_MS = 20_000
_LOOK_S = 0.05


@dataclass(frozen=True)
class Claim:
    """The name of a cut, taken for as long as the topic has this id."""

    name: str
    topic: str
    topic_id: str


@dataclass
class CutCatalog:
    """Where the named cuts of an application are, with the clients to change it."""

    application: str
    admin: Admin
    producer: PlainProducer
    cuts: Callable[[], Mapping[str, NamedCut]]
    """The list of them, read anew, without those whose records are damaged."""
    clock: Clock
    wait: Callable[[float], None] = time.sleep
    """So many seconds."""
    damaged: Callable[[], Mapping[str, RestoreError]] = dict
    """Name of a cut whose record cannot be read -> why."""

    def incomplete(self) -> list[str]:
        """Names that have topics and are no cuts: one is being made, or whoever made it died."""
        beginning = cut_copies(self.application)
        topics = [topic for topic in self.admin.topic_names() if topic.startswith(beginning)]
        names = {topic.removeprefix(beginning).partition(".")[0] for topic in topics}
        return sorted(names - self.cuts().keys())

    @contextmanager
    def making(self, name: str) -> Iterator[IncompleteCut]:
        """Claim a name. Whatever is raised inside, all that was made of the cut is given up.

        Raises ConfigError if there is a cut of this name, or somebody makes one, or died of it.
        """
        self._check_free(name, self.topics_of(name))
        claim = self._claim(name)
        if claim is None:
            raise self._taken(name)
        making = IncompleteCut(self, claim)
        try:
            # Somebody may have completed one since, or begun one with a logstate without claims.
            self._check_free(name, self.topics_of(name).keys() - {claim.topic})
            yield making
        except BaseException as error:
            is_held = making.give_up()
            if is_held or error is making.lost or not isinstance(error, LogstateError):
                raise
            raise making.lost from error  # its topics are gone, and whatever needs them fails

    def give_up_expired(self) -> None:
        """Delete the cuts whose time is over, but for those that somebody else is at."""
        now_ms = self.clock.wall_clock_ms()
        for one in self.cuts().values():
            if one.is_expired(now_ms):
                self._give_up_expired(one)

    def _give_up_expired(self, expired: NamedCut) -> None:
        name = expired.name
        with self.claimed(name) as claim:
            if claim is None:
                topic = cut_claim_topic(self.application, name)
                self.warn(
                    name,
                    f"its time is over, and it is not deleted, because {topic} is there: somebody"
                    " else deletes it now, or died of that",
                    "removes both",
                )
            elif self.cuts().get(name) == expired:
                self._remove(name)

    def give_up(self, name: str) -> None:
        """Delete a cut, or what there is of one that was never completed, the claim too.

        Whoever is making it is refused when it finds that out. Raises ConfigError if there is
        nothing of this name, or somebody else begins to make it anew.
        """
        there, cuts = self.topics_of(name), self.cuts()
        if name not in cuts and not there and name not in self.damaged():
            raise ConfigError(f"{self.application!r} has no cut {name!r}; it has {sorted(cuts)}")
        gone = self._removed(name)
        if gone is None:
            # Its maker cannot complete it without its claim, and nobody begins one under this one.
            topic = cut_claim_topic(self.application, name)
            for found in self.admin.describe_topics([topic]).values():
                self.release(Claim(name, topic, found.topic_id))
            gone = self._removed(name)
        if gone is None:
            raise self._taken(name)
        late = self.cuts().get(name)
        if late is not None and set(ids_of(late).values()) <= gone:
            self.write(name, None)  # its maker had seen its claim just before

    def _removed(self, name: str) -> set[str] | None:
        """The ids of the copies that were deleted; None: somebody else has the claim."""
        with self.claimed(name) as claim:
            return None if claim is None else self._remove(name)

    def topics_of(self, name: str) -> dict[str, str]:
        """Topic to id: copies of a cut and its claim."""
        found = self.admin.describe_topics([], cut_copies(self.application, name))
        return {topic: one.topic_id for topic, one in found.items()}

    def known(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of topics that were just made. Raises TopicError if they stay unknown."""
        names = sorted(topics)
        deadline = self.clock.monotonic_ms() + _UNKNOWN_MS
        while len(found := self.admin.describe_topics(names)) < len(names):
            if self.clock.monotonic_ms() > deadline:
                raise TopicError(
                    f"topics {sorted(set(names) - found.keys())} were made and are not there after"
                    f" {_UNKNOWN_MS / 1000:g} s: somebody has deleted them, by `logstate cut"
                    " delete` or by hand; see what is left with `logstate cut list`, delete it, and"
                    " try again"
                )
            self.wait(_LOOK_S)
        return {topic: one.topic_id for topic, one in found.items()}

    @contextmanager
    def claimed(self, name: str) -> Iterator[Claim | None]:
        """Hold the claim of a name inside; None: somebody else has it."""
        claim = self._claim(name)
        try:
            yield claim
        finally:
            if claim is not None:
                self.release(claim)

    def holds(self, claim: Claim) -> bool:
        """Whether a claim is there, and is no other than it was."""
        found = self.admin.describe_topics([claim.topic]).get(claim.topic)
        return found is not None and found.topic_id == claim.topic_id

    def release(self, claim: Claim) -> None:
        """Let others have the name; a claim that is not held any more is somebody else's."""
        if self.holds(claim):
            self.admin.delete_topics([claim.topic])

    def write(self, name: str, cut: NamedCut | None) -> None:
        """The record that names a cut; None takes it back."""
        topic = named_cuts_topic(self.application)
        self.admin.create_topics([NewTopic(topic, 1, -1, _NAMES)])
        value = None if cut is None else cut.to_json().encode()
        now_ms = self.clock.wall_clock_ms()
        self.producer.produce([ProducedRecord(topic, 0, name.encode(), value, now_ms)])
        self.producer.flush()

    def warn(self, name: str, what: str, then: str) -> None:
        """Tell of what is left of a cut, and of the command that removes it."""
        remedy = f"logstate cut delete {self.application} {name}"
        _LOGGER.warning("cut %r of %s: %s. `%s` %s", name, self.application, what, remedy, then)

    def _check_free(self, name: str, topics: Iterable[str]) -> None:
        if name in self.cuts():
            raise ConfigError(f"{self.application!r} has a cut {name!r} already: delete it first")
        if (error := self.damaged().get(name)) is not None:
            raise error
        if topics:
            raise self._taken(name)

    def _taken(self, name: str) -> ConfigError:
        return ConfigError(
            f"the cut {name!r} of {self.application!r} is being made by somebody else, or whoever"
            " made it died. If somebody is, `logstate cut list` shows it when it is complete; else"
            f" `logstate cut delete {self.application} {name}` removes what is left"
        )

    def _claim(self, name: str) -> Claim | None:
        """None: it was there, and so is somebody else's."""
        topic = cut_claim_topic(self.application, name)
        if topic not in self.admin.create_topics([NewTopic(topic, 1, -1, {})]):
            return None
        return Claim(name, topic, self.known([topic])[topic])

    def _remove(self, name: str) -> set[str]:
        found = self.cuts().get(name)
        topics: dict[str, str] = {}
        if found is not None:
            # The name first: a cut that is there is whole.
            self.write(name, None)
            # A record may name any topic; it keeps nothing in one that is not named as a copy.
            copies = ids_of(found).items()
            topics.update(
                (topic, id_) for topic, id_ in copies if is_copy(self.application, name, topic)
            )
        elif name in self.damaged():
            self.write(name, None)
        topics.update(self.topics_of(name))
        topics.pop(cut_claim_topic(self.application, name), None)
        self.admin.delete_topics(sorted(topics))
        return set(topics.values())


class IncompleteCut:
    """A cut that is not complete yet, in the hands of who holds its claim."""

    def __init__(self, shelf: CutCatalog, claim: Claim) -> None:
        self._shelf = shelf
        self._claim = claim
        self._begun: list[str] = []
        self._ids: dict[str, str] = {}
        #: what is raised where the claim is not held any more
        self.lost = RestoreError(
            f"the cut {claim.name!r} of {shelf.application!r} is given up: its claim, the topic"
            f" {claim.topic!r}, was deleted while it was made, by `logstate cut delete` or by"
            " hand; make it again"
        )

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, str]:
        """Make the topics of the copies, and return their ids.

        Raises RestoreError if one was there already, or the claim is not held any more.
        """
        self._begun = [topic.name for topic in topics]
        others = set(self._begun) - self._shelf.admin.create_topics(topics)
        if others:
            raise RestoreError(
                f"{sorted(others)} were there when the cut {self._claim.name!r} was to be copied"
                " there: somebody else made them, or an answer of the brokers was lost; the cut is"
                " given up; try again"
            )
        found = self._shelf.known(self._begun)
        # Now, since whoever has the claim next makes topics of the same names.
        self._check_held()
        self._ids = found
        return found

    def complete(self, cut: NamedCut) -> None:
        """Write the record that names the cut: from now on it is there.

        Raises RestoreError if the claim is not held any more: the cut was deleted meanwhile.
        """
        self._check_held()
        self._shelf.write(self._claim.name, cut)
        self._check_held()  # else whoever deleted it may have looked before it was written
        try:
            self._shelf.release(self._claim)
        except LogstateError as error:
            claim = self._claim
            self._shelf.warn(
                claim.name,
                f"it is complete, and the topic {claim.topic} is left of its making:"
                f" {text_of(error)}. Nobody needs it",
                "will delete it with the cut",
            )

    def give_up(self) -> bool:
        """Delete what was made, the claim last; what cannot be deleted now is told to the log.

        Returns whether the claim was held till then, as far as is known.
        """
        is_held = True
        try:
            is_held = self._shelf.holds(self._claim)
            self._give_up(is_held=is_held)
        except LogstateError as error:
            what = f"what was begun of it is left: {text_of(error)}"
            self._shelf.warn(self._claim.name, what, "removes it")
        return is_held

    def _give_up(self, *, is_held: bool) -> None:
        shelf, name = self._shelf, self._claim.name
        is_named = self._is_named()
        if is_held:
            if not is_named:  # else it is complete, and only an answer was lost
                self._delete_copies(is_alone=True)
            shelf.release(self._claim)
            return
        if is_named:
            shelf.write(name, None)
        # Copies that were made too late to be deleted would be in the way of the next one.
        with shelf.claimed(name) as claim:
            self._delete_copies(is_alone=claim is not None)

    def _is_named(self) -> bool:
        found = self._shelf.cuts().get(self._claim.name)
        return found is not None and ids_of(found) == self._ids

    def _delete_copies(self, *, is_alone: bool) -> None:
        """Those that are known by their ids; all that there are where nobody else makes any."""
        shelf, name = self._shelf, self._claim.name
        there = shelf.topics_of(name)
        topics = {topic for topic in there if self._ids.get(topic) == there[topic]}
        if is_alone and self._begun and name not in shelf.cuts():
            topics = {*there, *self._begun} - {self._claim.topic}
        shelf.admin.delete_topics(sorted(topics))

    def _check_held(self) -> None:
        if not self._shelf.holds(self._claim):
            raise self.lost


def ids_of(cut: NamedCut) -> dict[str, str]:
    """Topic to id, of the copies of a cut."""
    return {kept.topic: kept.topic_id for kept in cut.stores.values()}
