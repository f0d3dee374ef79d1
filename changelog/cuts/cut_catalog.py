"""The topics of an application's named cuts: the list of the cuts, their copies, and claims.

How it works: a process that makes a cut first creates its claim, an empty topic. Brokers create a
topic only once, and report which request created it. So if several processes begin at the same
moment, one continues and the others are refused. A claim is held while its topic has the id that
it was created with. It is deleted last: after the record that names the cut is written, or after
the copies of an abandoned cut are deleted.

Invariants: only the holder of the claim makes copies and writes the record. The record is written
when the copies are complete and counted, and is deleted before them. A maker that has lost its
claim to ``abandon`` deletes the topics that it knows by their ids, and other topics only if no
other process holds the claim. A crash in between leaves topics without a record, which ``abandon``
removes, the claim included.

Not covered: a maker that is suspended between its check of the claim and its record, while its cut
is deleted and another cut of the same name is made. Its record hides the other cut's record and is
then withdrawn: the other cut is lost, and its copies are listed as incomplete.
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
#: for how long a topic that was created may be unknown to another broker
_UNKNOWN_MS = 20_000
_LOOK_S = 0.05


@dataclass(frozen=True)
class Claim:
    """The claim to the name of a cut, valid for as long as the topic has this id."""

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
    """Reads the list of cuts again, without those whose records are damaged."""
    clock: Clock
    wait: Callable[[float], None] = time.sleep
    """Waits for a number of seconds."""
    damaged: Callable[[], Mapping[str, RestoreError]] = dict
    """Returns name of a cut whose record cannot be read -> the error."""

    def incomplete(self) -> list[str]:
        """Return names with topics but no record: being made, or left by a maker that died."""
        beginning = cut_copies(self.application)
        topics = [topic for topic in self.admin.topic_names() if topic.startswith(beginning)]
        names = {topic.removeprefix(beginning).partition(".")[0] for topic in topics}
        return sorted(names - self.cuts().keys())

    @contextmanager
    def making(self, name: str) -> Iterator[IncompleteCut]:
        """Claim a name. If the block raises, all topics that were made for the cut are deleted.

        Raises ConfigError if a cut of this name exists, is being made, or was left incomplete.
        """
        self._check_free(name, self.topics_of(name))
        claim = self._claim(name)
        if claim is None:
            raise self._name_in_use(name)
        making = IncompleteCut(self, claim)
        try:
            # Another maker may have completed one since, or begun one without a claim (older code).
            self._check_free(name, self.topics_of(name).keys() - {claim.topic})
            yield making
        except BaseException as error:
            is_held = making.abandon()
            if is_held or error is making.lost or not isinstance(error, LogstateError):
                raise
            raise making.lost from error  # its topics are gone, so the error is a consequence

    def delete_expired(self) -> None:
        """Delete the expired cuts, except those that another process is working on."""
        now_ms = self.clock.wall_clock_ms()
        for one in self.cuts().values():
            if one.is_expired(now_ms):
                self._delete_expired(one)

    def _delete_expired(self, expired: NamedCut) -> None:
        name = expired.name
        with self.claimed(name) as claim:
            if claim is None:
                topic = cut_claim_topic(self.application, name)
                self.warn(
                    name,
                    f"it is expired, but was not deleted, because the topic {topic} exists: another"
                    " process is deleting it, or died while deleting it",
                    "removes both",
                )
            elif self.cuts().get(name) == expired:
                self._remove(name)

    def abandon(self, name: str) -> None:
        """Delete a cut, or the remains of an incomplete one, including the claim.

        A process that is making the cut fails at its next check of the claim. Raises ConfigError
        if nothing of this name exists, or another process has just begun to make it again.
        """
        there, cuts = self.topics_of(name), self.cuts()
        if name not in cuts and not there and name not in self.damaged():
            raise ConfigError(f"{self.application!r} has no cut {name!r}; it has {sorted(cuts)}")
        gone = self._removed(name)
        if gone is None:
            # Without its claim the maker cannot complete the cut, and no one can begin another.
            topic = cut_claim_topic(self.application, name)
            for found in self.admin.describe_topics([topic]).values():
                self.release(Claim(name, topic, found.topic_id))
            gone = self._removed(name)
        if gone is None:
            raise self._name_in_use(name)
        late = self.cuts().get(name)
        if late is not None and set(ids_of(late).values()) <= gone:
            self.write(name, None)  # its maker had checked its claim just before

    def _removed(self, name: str) -> set[str] | None:
        """Return the ids of the copies that were deleted; None: another process has the claim."""
        with self.claimed(name) as claim:
            return None if claim is None else self._remove(name)

    def topics_of(self, name: str) -> dict[str, str]:
        """Return topic to id, for the copies of a cut and its claim."""
        found = self.admin.describe_topics([], cut_copies(self.application, name))
        return {topic: one.topic_id for topic, one in found.items()}

    def known(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics just created. Raises TopicError if they remain unknown."""
        names = sorted(topics)
        deadline = self.clock.monotonic_ms() + _UNKNOWN_MS
        while len(found := self.admin.describe_topics(names)) < len(names):
            if self.clock.monotonic_ms() > deadline:
                raise TopicError(
                    f"topics {sorted(set(names) - found.keys())} were created, but do not exist"
                    f" after {_UNKNOWN_MS / 1000:g} s: they were deleted by `logstate cut delete`"
                    " or by hand. Delete what `logstate cut list` shows of it, and try again"
                )
            self.wait(_LOOK_S)
        return {topic: one.topic_id for topic, one in found.items()}

    @contextmanager
    def claimed(self, name: str) -> Iterator[Claim | None]:
        """Hold the claim of a name inside the block; None: another process holds it."""
        claim = self._claim(name)
        try:
            yield claim
        finally:
            if claim is not None:
                self.release(claim)

    def holds(self, claim: Claim) -> bool:
        """Whether the claim exists with the same topic id."""
        found = self.admin.describe_topics([claim.topic]).get(claim.topic)
        return found is not None and found.topic_id == claim.topic_id

    def release(self, claim: Claim) -> None:
        """Release the name. A claim that was lost belongs to another process."""
        if self.holds(claim):
            self.admin.delete_topics([claim.topic])

    def write(self, name: str, cut: NamedCut | None) -> None:
        """Write the record that names a cut; None deletes it."""
        topic = named_cuts_topic(self.application)
        self.admin.create_topics([NewTopic(topic, 1, -1, _NAMES)])
        value = None if cut is None else cut.to_json().encode()
        now_ms = self.clock.wall_clock_ms()
        self.producer.produce([ProducedRecord(topic, 0, name.encode(), value, now_ms)])
        self.producer.flush()

    def warn(self, name: str, what: str, then: str) -> None:
        """Log a warning about the remains of a cut, with the command that removes them."""
        remedy = f"logstate cut delete {name} --application-id {self.application}"
        _LOGGER.warning("cut %r of %s: %s. `%s` %s", name, self.application, what, remedy, then)

    def _check_free(self, name: str, topics: Iterable[str]) -> None:
        if name in self.cuts():
            raise ConfigError(f"{self.application!r} has a cut {name!r} already: delete it first")
        if (error := self.damaged().get(name)) is not None:
            raise error
        if topics:
            raise self._name_in_use(name)

    def _name_in_use(self, name: str) -> ConfigError:
        return ConfigError(
            f"the cut {name!r} of {self.application!r} is being made by another process, or its"
            " maker died. If it is being made, `logstate cut list` shows it once it is complete;"
            f" otherwise `logstate cut delete {name} --application-id {self.application}` removes"
            " the remains"
        )

    def _claim(self, name: str) -> Claim | None:
        """Return None if the topic existed: another process holds the claim."""
        topic = cut_claim_topic(self.application, name)
        if topic not in self.admin.create_topics([NewTopic(topic, 1, -1, {})]):
            return None
        return Claim(name, topic, self.known([topic])[topic])

    def _remove(self, name: str) -> set[str]:
        found = self.cuts().get(name)
        topics: dict[str, str] = {}
        if found is not None:
            # Delete the record first: a cut that has a record is complete.
            self.write(name, None)
            # A record may name any topic; only topics that are named as copies are deleted.
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
    """A cut that is not complete yet. Only the holder of its claim works on it."""

    def __init__(self, shelf: CutCatalog, claim: Claim) -> None:
        self._shelf = shelf
        self._claim = claim
        self._begun: list[str] = []
        self._ids: dict[str, str] = {}
        #: the error to raise once the claim is lost
        self.lost = RestoreError(
            f"the cut {claim.name!r} of {shelf.application!r} was abandoned: its claim, the topic"
            f" {claim.topic!r}, was deleted while the cut was being made, by `logstate cut delete`"
            " or by hand. Create it again"
        )

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, str]:
        """Create the topics of the copies, and return their ids.

        Raises RestoreError if one existed already, or the claim was lost.
        """
        self._begun = [topic.name for topic in topics]
        others = set(self._begun) - self._shelf.admin.create_topics(topics)
        if others:
            raise RestoreError(
                f"{sorted(others)} already existed when the cut {self._claim.name!r} was to be"
                " copied there: another process created them, or a response of the brokers was"
                " lost. The cut was abandoned; try again"
            )
        found = self._shelf.known(self._begun)
        # Check after the lookup, because the next holder of the claim uses the same topic names.
        self._check_held()
        self._ids = found
        return found

    def complete(self, cut: NamedCut) -> None:
        """Write the record that names the cut, which makes it visible.

        Raises RestoreError if the claim was lost: the cut was deleted meanwhile.
        """
        self._check_held()
        self._shelf.write(self._claim.name, cut)
        self._check_held()  # a process that deleted it may have looked before the record was there
        try:
            self._shelf.release(self._claim)
        except LogstateError as error:
            claim = self._claim
            self._shelf.warn(
                claim.name,
                f"it is complete, but its claim topic {claim.topic} could not be deleted:"
                f" {text_of(error)}. The topic is not needed any more",
                "will delete it with the cut",
            )

    def abandon(self) -> bool:
        """Delete what was made, the claim last; log which topics cannot be deleted now.

        Return whether the claim was held until then, as far as is known.
        """
        is_held = True
        try:
            is_held = self._shelf.holds(self._claim)
            self._abandon(is_held=is_held)
        except LogstateError as error:
            what = f"its incomplete topics could not be deleted: {text_of(error)}"
            self._shelf.warn(self._claim.name, what, "removes it")
        return is_held

    def _abandon(self, *, is_held: bool) -> None:
        shelf, name = self._shelf, self._claim.name
        is_named = self._is_named()
        if is_held:
            if not is_named:  # otherwise it is complete, and only a response was lost
                self._delete_copies(is_alone=True)
            shelf.release(self._claim)
            return
        if is_named:
            shelf.write(name, None)
        # Copies that were created too late to be deleted would block the next cut of this name.
        with shelf.claimed(name) as claim:
            self._delete_copies(is_alone=claim is not None)

    def _is_named(self) -> bool:
        found = self._shelf.cuts().get(self._claim.name)
        return found is not None and ids_of(found) == self._ids

    def _delete_copies(self, *, is_alone: bool) -> None:
        """Delete the copies with known ids; all copies if no other process makes any."""
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
    """Return topic to id, for the copies of a cut."""
    return {kept.topic: kept.topic_id for kept in cut.stores.values()}
