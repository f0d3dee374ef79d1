"""What an error says is short, and telling it never fails."""

from __future__ import annotations

import pytest

from logstate.contracts.error_text import text_of, trace_of


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as exc:  # noqa: BLE001  with its traceback
        return exc


def test_a_short_text_is_what_the_error_says() -> None:
    assert text_of(ValueError("no")) == "no"


def test_an_error_of_a_codec_says_what_was_needed() -> None:
    for codec, needed in ((str.encode, "str"), (bytes.__bytes__, "bytes")):
        for wrong, found in ((5, "int"), (None, "None"), ([], "list")):
            with pytest.raises(TypeError) as error:
                codec(wrong)  # type: ignore[operator]
            assert text_of(error.value).startswith(f"a {needed} is needed, found {found}:")


def test_a_long_text_is_cut_and_says_so() -> None:
    text = text_of(ValueError("x" * 600_000))
    assert len(text) < 2_100
    assert text.endswith("(cut: 600000 characters)")


def test_an_error_that_cannot_say_what_it_is_is_told_as_such() -> None:
    assert text_of(Mute()) == "(no text: its __str__ raised RuntimeError)"
    assert "Mute" in trace_of(caught(Mute()))


def test_a_trace_with_a_long_text_keeps_its_frames() -> None:
    trace = trace_of(caught(ValueError("x" * 600_000)))
    assert "in caught" in trace
    assert "cut" in trace
    assert len(trace) < 5_000
