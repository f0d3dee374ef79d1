"""Keys of windows are declared by their windows, whichever they are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate import (
    HoppingWindows,
    JoinWindows,
    SerdeError,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    Windowed,
    serdes,
)

TEN = timedelta(milliseconds=10)


@pytest.mark.parametrize(
    "windows",
    [
        10,
        TumblingWindows(size=TEN),
        HoppingWindows(size=TEN, advance=TEN / 2),
        SlidingWindows(difference=TEN, grace=TEN),
    ],
)
def test_windows_say_how_long_their_keys_are(windows: Any) -> None:
    serde = serdes.windowed(str, windows)
    data = serde.serializer("t", True)(Windowed("a", 20, 30))
    assert serde.deserializer("t", True)(data) == Windowed("a", 20, 30)


def test_sessions_have_keys_of_their_own() -> None:
    with pytest.raises(SerdeError, match=r"sessions have no length. Give session_windowed"):
        serdes.windowed(str, SessionWindows(gap=TEN))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        *(None, True, 1.5, "10", TEN, TumblingWindows, SlidingWindows, object()),
        JoinWindows(before=TEN, after=TEN, grace=TEN),
    ],
)
def test_what_has_no_windows_is_refused(given: Any) -> None:
    with pytest.raises(SerdeError, match=r"windowed\(\) takes the length of the windows in ms, or"):
        serdes.windowed(str, given)
