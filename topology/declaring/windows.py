"""Windows: which span of event time a record falls into.

Constructors take ``timedelta`` keywords; attributes are whole milliseconds. Nothing has an implicit
grace: without ``grace`` a window closes as soon as stream time reaches its end (KIP-633).

- tumbling and hopping windows: [start, end), starts are multiples of the advance and never
  negative;
- sliding windows (KIP-450): [start, end], both ends inclusive, one window per distinct content;
- session windows: [first event, last event], merged while the distance is <= the gap;
- count windows: so many values of a key, whatever their times;
- join windows: a left record at t matches right records in [t - before, t + after].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypeAlias, TypeGuard

from logstate.contracts.error_text import text_of
from logstate.contracts.record_parts import timestamp_of
from logstate.topology.declaring.declaration_site import declaration_error

#: what an aggregation forwards: every update, the last per key and commit, final results only, or
#: the change of each row since the commit before
Emit: TypeAlias = Literal["update", "commit", "close", "delta"]

_MILLISECOND = timedelta(milliseconds=1)
_ZERO = timedelta(0)
_COUNT_MAX = 2**31 - 1


def to_ms(duration: timedelta, what: str) -> int:
    """A duration in whole milliseconds; raises TopologyError for anything else than that."""
    if not isinstance(duration, timedelta):
        raise declaration_error(
            f"{what} must be a timedelta, found {duration!r}. Write timedelta(seconds=...)."
        )
    if duration % _MILLISECOND and duration != timedelta.max:  # which is for ever, not so exact
        raise declaration_error(
            f"{what} is {duration}, not a whole number of milliseconds: event time has"
            " millisecond resolution. Round it."
        )
    return duration // _MILLISECOND


def duration_ms(duration: timedelta, what: str, *, at_least: int = 0) -> int:
    """A duration in whole milliseconds that is not too short."""
    ms = to_ms(duration, what)
    if ms < at_least:
        raise declaration_error(
            f"{what} must be at least {at_least} ms, found {ms} ms. Give a longer timedelta."
        )
    return ms


def scheduled_ms(interval: timedelta, kind: object) -> int:
    """The interval of a schedule, in ms; raises TopologyError for another kind, too."""
    if kind not in ("stream_time", "wall_clock"):
        raise declaration_error(
            f"kind must be 'stream_time' or 'wall_clock', found {kind!r}. schedule(interval, kind,"
            " callback) says by which clock the callback is called."
        )
    return duration_ms(interval, "interval", at_least=1)


class Windows(ABC):
    """Windows in time. Subclass it for an alignment of your own: days of a time zone, shifts.

    >>> from logstate import StreamsBuilder, TopologyTestDriver, Windows
    >>> class Shifts(Windows):
    ...     size_ms, grace_ms = 8, 0
    ...     def windows_for(self, timestamp):
    ...         start = max(0, (timestamp - 6) // 8 * 8 + 6)
    ...         return [(start, start + 8)]
    >>> builder = StreamsBuilder()
    >>> work = builder.stream("work", value=str).group_by_key().windowed_by(Shifts())
    >>> work.count(store="n").to_stream(lambda shift, n: shift.start_ms).to("n", key=int)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("work", [("ada", "a", 6), ("ada", "b", 13), ("ada", "c", 14)])
    ...     driver.read("n", key=int, value=int)
    [(6, 1), (6, 2), (14, 1)]

    Semantics: a window is closed once stream time reaches its end + ``grace_ms``. A window store
    keeps only starts: all windows have ``size_ms``, or the class says ``varies = True``, and ends
    are then asked of ``windows_for``. The first record in a window of another length than declared
    stops the application. A class derived from :class:`TumblingWindows` or :class:`HoppingWindows`
    is asked as well, where it has a ``windows_for``. Days of a time zone have 23, 24 or 25 hours:

    >>> from datetime import datetime, timedelta
    >>> from zoneinfo import ZoneInfo
    >>> class Days(Windows):
    ...     varies, size_ms, grace_ms = True, 25 * 3_600_000, 0
    ...     def windows_for(self, timestamp):
    ...         now = datetime.fromtimestamp(timestamp / 1000, ZoneInfo("Europe/Berlin"))
    ...         day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    ...         ends = day + timedelta(days=1)
    ...         return [(int(day.timestamp() * 1000), int(ends.timestamp() * 1000))]
    >>> start, end = Days().windows_for(1_730_030_400_000)[0]
    >>> (end - start) // 3_600_000, Days().end_of(start) == end
    (25, True)

    What reads a store or topic from outside Python (Spark, the command line) then shows starts
    without ends; ``windowed(str, Days())`` reads the topic with them.

    Source: Kafka Streams' ``Windows``; no implicit grace: KIP-633. There a store takes every window
    for ``size`` long, whatever ``windowsFor`` says.
    """

    #: length of a window; of the longest one if they vary
    size_ms: int
    #: whether windows differ in length
    varies: bool = False
    #: how long after its end a window still accepts records
    grace_ms: int
    #: how long the inputs must be idle before stream time advances without records; None: it waits
    close_on_idle_ms: int | None = None

    @abstractmethod
    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        """The windows that contain a timestamp.

        >>> from datetime import timedelta
        >>> from logstate import TumblingWindows
        >>> TumblingWindows(size=timedelta(seconds=10)).windows_for(12_345)
        ((10000, 20000),)

        Args:
            timestamp: event time in ms, not negative.

        Returns:
            ``(start_ms, end_ms)`` pairs with ascending starts, none negative; ends are exclusive.
                An empty list is allowed: the record is then in no window.

        Source: Kafka Streams' ``Windows.windowsFor``.
        """

    def end_of(self, start_ms: int) -> int:
        """The end, exclusive, of the window that starts at ``start_ms``.

        >>> from datetime import timedelta
        >>> from logstate import TumblingWindows
        >>> TumblingWindows(size=timedelta(seconds=10)).end_of(10_000)
        20000

        Semantics: asked of ``windows_for``, since a window contains its start; of a start that it
        does not know any more, start + ``size_ms``.

        Args:
            start_ms: event time in ms.

        Returns:
            Event time in ms.

        Source: none; in Kafka Streams it is start + size.
        """
        ends = (end for start, end in self.windows_for(start_ms) if start == start_ms)
        return next(ends, start_ms + self.size_ms)


class _Spans:
    """Shows its spans, in ms, in the order in which they are given."""

    close_on_idle_ms: int | None

    def _close_on_idle(self, idle: timedelta | None, what: str) -> None:
        """Take the option ``close_on_idle``."""
        if idle is not None:
            self.close_on_idle_ms = duration_ms(idle, f"close_on_idle of {what}", at_least=1)

    def __repr__(self) -> str:
        spans = ", ".join(f"{name}={ms}" for name, ms in vars(self).items())
        return f"{type(self).__name__}({spans})"


class TumblingWindows(_Spans, Windows):
    """Windows side by side, aligned to the epoch: [start, end).

    >>> from datetime import timedelta
    >>> from logstate import TumblingWindows
    >>> TumblingWindows(size=timedelta(seconds=10), grace=timedelta(seconds=2)).windows_for(12_345)
    ((10000, 20000),)

    Semantics: every record is in exactly one window. It is late for it once stream time, the
    record's own included, has reached the window's end + grace. The default grace is zero.

    Args:
        size: length of a window, at least 1 ms.
        grace: how long after its end a window still takes records.
        close_on_idle: close windows without a later record once the inputs of the task have been
            idle for this long, at least 1 ms; see the page about idle topics. None: windows wait
            for a later record.

    Raises:
        TopologyError: not a timedelta in whole milliseconds, or too short.

    Source: Kafka Streams' ``TimeWindows.ofSizeAndGrace``; no implicit grace: KIP-633.
    """

    def __init__(
        self, *, size: timedelta, grace: timedelta = _ZERO, close_on_idle: timedelta | None = None
    ) -> None:
        self.size_ms = duration_ms(size, "size of tumbling windows", at_least=1)
        self.grace_ms = duration_ms(grace, "grace of tumbling windows")
        self._close_on_idle(close_on_idle, "tumbling windows")

    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        start = timestamp - timestamp % self.size_ms
        return ((start, start + self.size_ms),)


class HoppingWindows(_Spans, Windows):
    """Overlapping windows: one of ``size`` starts every ``advance``.

    >>> from datetime import timedelta
    >>> from logstate import HoppingWindows
    >>> HoppingWindows(size=timedelta(seconds=10), advance=timedelta(seconds=5)).windows_for(12_345)
    ((5000, 15000), (10000, 20000))

    Semantics: a record is in size / advance windows, and may be late for one and in time for the
    next. Starts are multiples of the advance and never negative, so the first records are in fewer
    windows.

    Args:
        size: length of a window, at least 1 ms.
        advance: distance between two starts, at least 1 ms and at most the size.
        grace: how long after its end a window still takes records.
        close_on_idle: close windows without a later record once the inputs of the task have been
            idle for this long, at least 1 ms; see the page about idle topics. None: windows wait
            for a later record.

    Raises:
        TopologyError: not a timedelta in whole milliseconds, too short, or an advance above the
            size: records between two windows would be in none.

    Source: Kafka Streams' ``TimeWindows.advanceBy``; no implicit grace: KIP-633.
    """

    def __init__(
        self,
        *,
        size: timedelta,
        advance: timedelta,
        grace: timedelta = _ZERO,
        close_on_idle: timedelta | None = None,
    ) -> None:
        self.size_ms = duration_ms(size, "size of hopping windows", at_least=1)
        self.advance_ms = duration_ms(advance, "advance of hopping windows", at_least=1)
        self.grace_ms = duration_ms(grace, "grace of hopping windows")
        self._close_on_idle(close_on_idle, "hopping windows")
        if self.advance_ms > self.size_ms:
            raise declaration_error(
                f"advance {self.advance_ms} ms is larger than size {self.size_ms} ms: records"
                " between two windows would be in none. Make advance at most size."
            )

    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        size, advance = self.size_ms, self.advance_ms
        first = max(0, timestamp - size + advance) // advance * advance
        return tuple((start, start + size) for start in range(first, timestamp + 1, advance))


class UnlimitedWindows(Windows):
    """One window from ``start_ms`` on that never closes.

    >>> from logstate import UnlimitedWindows
    >>> windows = UnlimitedWindows(start_ms=1_000)
    >>> windows.windows_for(999), windows.windows_for(1_000)
    ((), ((1000, 9223372036854775807),))

    Semantics: earlier records are in no window and change nothing. Nothing is ever late or final,
    so ``emit="close"`` and suppressing until windows close are refused or wait for ever.

    Args:
        start_ms: event time in ms, not negative.

    Raises:
        TopologyError: a negative start, or no time.

    Source: Kafka Streams' ``UnlimitedWindows``.
    """

    def __init__(self, *, start_ms: int = 0) -> None:
        try:
            self.start_ms = timestamp_of(start_ms, "they begin at")
        except (TypeError, ValueError) as error:
            raise declaration_error(f"start_ms of UnlimitedWindows: {text_of(error)}.") from error
        if self.start_ms < 0:
            raise declaration_error(
                f"start_ms must not be negative, found {start_ms}: event time begins at 0."
            )
        self.size_ms = 2**63 - 1
        self.grace_ms = 0

    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]:
        return ((self.start_ms, 2**63 - 1),) if timestamp >= self.start_ms else ()


def advance_ms_of(windows: Windows) -> int | None:
    """From one window's start to the next one's; None where it is not known.

    A class that is derived from one of these and overrides ``windows_for`` has different windows.
    """
    if are_tumbling(windows):
        return windows.size_ms
    has = type(windows).windows_for
    if isinstance(windows, HoppingWindows) and has is HoppingWindows.windows_for:
        return windows.advance_ms
    return None


def are_tumbling(windows: object) -> TypeGuard[TumblingWindows]:
    """Whether every timestamp is in one window: a derived class may override ``windows_for``."""
    if not isinstance(windows, TumblingWindows):
        return False
    return type(windows).windows_for is TumblingWindows.windows_for


class SlidingWindows(_Spans):
    """A window for every distinct set of records no further apart than ``difference``.

    >>> from datetime import timedelta
    >>> from logstate import SlidingWindows, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> near = SlidingWindows(difference=timedelta(milliseconds=10))
    >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(near)
    >>> counts = clicks.count(store="n").to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}")
    >>> counts.to("n", key=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "a", 15), ("ada", "b", 20)])
    ...     driver.read("n", value=int)
    [('5-15', 1), ('16-26', 1), ('10-20', 2)]

    Semantics: windows are [start, start + difference], both ends inclusive: one ends at each
    record, one starts right after it if later records are near. A record before ``difference``
    shares the window [0, difference], since none starts below 0. A window is closed once stream
    time exceeds its end by more than the grace. Null values are dropped, unlike by other windows.

    Args:
        difference: the largest distance of two records in one window.
        grace: how long after its end a window still takes records.
        close_on_idle: close windows without a later record once the inputs of the task have been
            idle for this long, at least 1 ms; see the page about idle topics. None: windows wait
            for a later record.

    Raises:
        TopologyError: not a timedelta in whole milliseconds, or negative.

    Source: Kafka Streams' ``SlidingWindows.ofTimeDifferenceAndGrace`` (KIP-450).
    """

    close_on_idle_ms: int | None = None

    def __init__(
        self,
        *,
        difference: timedelta,
        grace: timedelta = _ZERO,
        close_on_idle: timedelta | None = None,
    ) -> None:
        self.difference_ms = duration_ms(difference, "difference of sliding windows")
        self.grace_ms = duration_ms(grace, "grace of sliding windows")
        self._close_on_idle(close_on_idle, "sliding windows")


class SessionWindows(_Spans):
    """Activity without a pause longer than ``gap``.

    >>> from datetime import timedelta
    >>> from logstate import SessionWindows
    >>> SessionWindows(gap=timedelta(minutes=30), grace=timedelta(minutes=5))
    SessionWindows(gap_ms=1800000, grace_ms=300000)

    Semantics: a session is [first record, last record], both inclusive; a record at a distance of
    exactly the gap still belongs to it. It is closed once stream time exceeds its end by more than
    gap + grace.

    Args:
        gap: the pause that ends a session, at least 1 ms.
        grace: how much longer a session still takes records.
        close_on_idle: close windows without a later record once the inputs of the task have been
            idle for this long, at least 1 ms; see the page about idle topics. None: windows wait
            for a later record.

    Raises:
        TopologyError: not a timedelta in whole milliseconds, or too short.

    Source: Kafka Streams' ``SessionWindows.ofInactivityGapAndGrace`` (KIP-94).
    """

    close_on_idle_ms: int | None = None

    def __init__(
        self, *, gap: timedelta, grace: timedelta = _ZERO, close_on_idle: timedelta | None = None
    ) -> None:
        self.gap_ms = duration_ms(gap, "gap of session windows", at_least=1)
        self.grace_ms = duration_ms(grace, "grace of session windows")
        self._close_on_idle(close_on_idle, "session windows")


class CountWindows(_Spans):
    """Windows of ``n`` values of a key each, in the order in which the values arrive.

    >>> from datetime import timedelta
    >>> from logstate import CountWindows, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> pairs = CountWindows(2, step=2, timeout=timedelta(seconds=5))
    >>> bids = builder.stream("bids", value=int).group_by_key().windowed_by(pairs)
    >>> bids.reduce(lambda a, b: a + b, store="sums").to("sums")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("bids", [("lamp", 1, 0), ("lamp", 2, 1_000), ("lamp", 3, 2_000)])
    ...     driver.pipe("bids", "sofa", 9, timestamp=7_000)
    ...     driver.read_with_timestamps("sums", value=int)
    [('lamp', 3, 1000), ('lamp', 3, 2000)]

    Semantics: a window starts at every ``step``-th value of a key and has the ``n`` values from
    there on: with ``step=n`` windows are side by side, with a smaller one they overlap. A window
    has one result, when it has ``n`` values or when its key has had no value for the ``timeout``:
    then all open windows of the key close with the values that they have, in the order of their
    starts, and the next value of the key is its first one. The pause is measured in the operator's
    stream time: it begins at the stream time at which the last value arrived, and ends before the
    record that advances stream time by the timeout is counted. So late records are counted like
    others. The results of a key between two pauses are those of ``group_by_dynamic(row_number,
    every=f"{step}i", period=f"{n}i")`` in Polars, of which those with ``n`` values are its
    ``rolling_sum(n)`` and so on.

    Args:
        n: values of a window, at least 1.
        step: values from the start of a window to that of the next one, from 1 to ``n``.
        timeout: the pause of a key that closes its open windows, at least 1 ms.
        close_on_idle: let the timeout pass without a later record, too, once the inputs of the task
            have been idle for this long, at least 1 ms; see the page about idle topics. None: open
            windows wait for a later record.

    Raises:
        TopologyError: ``n`` or ``step`` is not such an int, or a time is not a timedelta in whole
            milliseconds, or too short.

    Source: Flink's ``countWindow(size, slide)``, which has no timeout, and Bytewax's ``collect``.
    """

    close_on_idle_ms: int | None = None

    def __init__(
        self,
        n: int,
        *,
        step: int = 1,
        timeout: timedelta = timedelta(seconds=5),
        close_on_idle: timedelta | None = None,
    ) -> None:
        self.n = _count(n, "n of count windows", "how many values a window has")
        self.step = _count(step, "step of count windows", "after how many values the next starts")
        self.timeout_ms = duration_ms(timeout, "timeout of count windows", at_least=1)
        self._close_on_idle(close_on_idle, "count windows")
        if self.step > self.n:
            raise declaration_error(
                f"step {self.step} is larger than n {self.n}: values between two windows would be"
                " in none. Make step at most n, and filter() the stream if values are to be left"
                " out."
            )


def _count(given: object, what: str, meaning: str) -> int:
    if type(given) is not int or not 1 <= given <= _COUNT_MAX:
        raise declaration_error(
            f"{what} must be an int from 1 to {_COUNT_MAX}, found {given!r}. It is {meaning}."
        )
    return given


class JoinWindows(_Spans):
    """How far apart two records may be to be joined.

    >>> from datetime import timedelta
    >>> from logstate import JoinWindows
    >>> JoinWindows(before=timedelta(0), after=timedelta(hours=1), grace=timedelta(minutes=1))
    JoinWindows(before_ms=0, after_ms=3600000, grace_ms=60000)

    Semantics: a left record at t matches right records in [t - before, t + after], both ends
    inclusive. The grace says how much longer unmatched records of left and outer joins wait, and
    how much longer records are kept to be joined. Either side may be negative: ``before=-1 s`` with
    ``after=5 s`` means between one and five seconds later.

    Args:
        before: how much earlier the right record may be.
        after: how much later the right record may be.
        grace: how long stragglers are waited for.
        close_on_idle: of left and outer joins: emit the unmatched records that are due without a
            later record once the inputs of the task have been idle for this long, at least 1 ms;
            None: they wait for a later record.

    Raises:
        TopologyError: not a timedelta in whole milliseconds, or before + after is negative: no
            record could match.

    Source: Kafka Streams' ``JoinWindows``; no implicit grace: KIP-633.
    """

    close_on_idle_ms: int | None = None

    def __init__(
        self,
        *,
        before: timedelta = _ZERO,
        after: timedelta = _ZERO,
        grace: timedelta = _ZERO,
        close_on_idle: timedelta | None = None,
    ) -> None:
        self.before_ms = to_ms(before, "before of join windows")
        self.after_ms = to_ms(after, "after of join windows")
        self.grace_ms = duration_ms(grace, "grace of join windows")
        if self.before_ms + self.after_ms < 0:
            raise declaration_error(
                f"before {self.before_ms} ms + after {self.after_ms} ms is negative: no record can"
                " match. Give spans whose sum is at least 0."
            )
        self._close_on_idle(close_on_idle, "join windows")

    @classmethod
    def symmetric(
        cls,
        difference: timedelta,
        *,
        grace: timedelta = _ZERO,
        close_on_idle: timedelta | None = None,
    ) -> JoinWindows:
        """The same distance to both sides.

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows
        >>> JoinWindows.symmetric(timedelta(seconds=5))
        JoinWindows(before_ms=5000, after_ms=5000, grace_ms=0)

        Args:
            difference: how much earlier or later the right record may be.
            grace: how long stragglers are waited for.
            close_on_idle: as of :class:`JoinWindows`.

        Returns:
            The windows.

        Raises:
            TopologyError: not a timedelta in whole milliseconds, or negative.

        Source: Kafka Streams' ``JoinWindows.ofTimeDifferenceAndGrace`` (KIP-633).
        """
        return cls(before=difference, after=difference, grace=grace, close_on_idle=close_on_idle)

    @property
    def size_ms(self) -> int:
        """Width of the whole span."""
        return self.before_ms + self.after_ms
