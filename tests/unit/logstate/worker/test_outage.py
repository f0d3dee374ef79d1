"""Brokers that are away: what is asked, and what is said about it."""

from __future__ import annotations

import logging

from logstate.contracts.clients import ClientErrors
from logstate.worker.outage import REMINDER_MS, SILENCE_MS, Note, Outage

QUIET = ClientErrors()
REFUSED = ClientErrors(3, "broker-1:9092: Connection refused")
AFFECTED = "Nothing is processed."


class Story:
    """Looks in a row, one each second, and what they gave to the log."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.outage = Outage("broker-1:9092", self.now_ms)
        self.asked = 0
        self.notes: list[Note] = []

    def check(
        self, client_errors: ClientErrors = QUIET, *, answers: bool = True, times: int = 1
    ) -> None:
        for _ in range(times):
            self.now_ms += 1_000
            if not self.outage.must_send_request(self.now_ms, client_errors):
                continue
            self.asked += 1
            note = (
                self.outage.answered(self.now_ms)
                if answers
                else self.outage.unanswered(self.now_ms, QUIET, AFFECTED)
            )
            if note is not None:
                self.notes.append(note)

    def levels(self) -> list[str]:
        return [logging.getLevelName(note.level) for note in self.notes]


def well() -> Story:
    story = Story()
    story.check()
    return story


def test_silence_is_asked_about_now_and_then_and_nothing_is_said() -> None:
    story = well()
    story.check(times=60)
    assert story.asked == 1 + 60 // (SILENCE_MS // 1_000)
    assert story.notes == []


def test_an_outage_is_told_once_then_once_a_minute_then_its_end() -> None:
    story = well()
    story.check(REFUSED, answers=False, times=150)
    story.check()
    assert story.levels() == ["WARNING", "WARNING", "WARNING", "INFO"]
    first, reminder, _, last = story.notes
    assert "the brokers at broker-1:9092 have not answered for 1 s" in first.text
    assert "Connection refused" in first.text
    assert AFFECTED in first.text
    assert "for 61 s" in reminder.text
    assert "183 lines" in reminder.text
    assert "answer again after 151 s" in last.text
    assert "450 lines" in last.text


def test_it_is_away_since_the_last_answer() -> None:
    story = well()
    answered_ms = story.now_ms
    story.check(REFUSED, answers=False)
    assert story.outage.since_ms == answered_ms
    story.check()
    assert story.outage.since_ms is None


def test_an_idle_instance_notices_brokers_that_fall_silent() -> None:
    story = well()
    story.check(answers=False, times=10)
    assert story.levels() == ["WARNING"]
    assert "no answer" in story.notes[0].text


def test_one_question_without_an_answer_and_without_a_reason_is_not_believed() -> None:
    story = well()
    story.check(answers=False, times=5)
    assert story.outage.since_ms is None
    story.check()
    assert story.notes == []


def test_a_lost_connection_while_brokers_answer_is_told_once_a_minute() -> None:
    story = well()
    story.check(REFUSED, times=int(REMINDER_MS / 1_000))
    assert story.levels() == ["WARNING"]
    assert "answer others" in story.notes[0].text
    assert "Connection refused" in story.notes[0].text


def test_the_first_complaints_of_an_outage_are_told_with_it_only() -> None:
    story = well()
    story.check(REFUSED, answers=False)
    story.check(REFUSED, answers=True)
    assert story.levels() == ["WARNING", "INFO"]


def test_brokers_that_never_answered_make_the_settings_suspect() -> None:
    story = Story()
    story.check(REFUSED, answers=False, times=2)
    (note,) = story.notes
    assert "since the start" in note.text
    assert "Check bootstrap= and the settings in kafka={...}" in note.text


def test_brokers_that_let_nobody_in_are_a_refusal_until_they_answer() -> None:
    story = well()
    story.check(ClientErrors(1, "SASL authentication error"), answers=False)
    assert story.outage.refusal is None
    story.now_ms += 1_000
    refused = ClientErrors(1, "SASL authentication error", True)
    story.outage.unanswered(story.now_ms, refused, AFFECTED)
    assert story.outage.refusal == "SASL authentication error"
    story.check()
    assert story.outage.refusal is None


def test_an_outage_counts_as_reported_until_a_minute_after_its_end() -> None:
    story = well()
    assert not story.outage.trouble(story.now_ms).is_reported
    story.check(REFUSED, answers=False)
    assert story.outage.trouble(story.now_ms).is_reported
    story.check()
    assert story.outage.trouble(story.now_ms + REMINDER_MS - 1).is_reported
    assert not story.outage.trouble(story.now_ms + REMINDER_MS).is_reported
