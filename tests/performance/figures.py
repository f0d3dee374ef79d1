"""What one run gave, what a pair of runs says, and what all pairs say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.performance.ratios import known, median, ratio, rounded
from tests.performance.workload import Emit, Workload


@dataclass(frozen=True)
class Figures:
    """One run; what does not apply to its workload is None."""

    peer: str
    emit: Emit
    records: int
    #: from the first record read to the last commit
    seconds: float
    #: from the start of the process
    seconds_with_start: float
    #: of the process tree, start included
    cpu_s: float
    cpu_s_after_start: float
    rss_max_mb: float
    outputs: int | None
    is_verified: bool
    #: CPU time the host of this virtual machine gave to others during the run
    stolen_cpu_s: float
    #: what everything else on the machine used, the broker apart where its process is known
    other_cpu_s: float
    broker_cpu_s: float | None = None
    #: of the thread that used most: logstate's worker
    thread_cpu_s: float | None = None
    warm_records_per_s: float | None = None
    changelog_records: int | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None

    @property
    def records_per_s(self) -> float:
        """Over the whole run, from the first record read."""
        return self.records / self.seconds

    @property
    def records_per_s_with_start(self) -> float:
        """Over the whole run, from the start of the process."""
        return self.records / self.seconds_with_start

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds of the process tree per million records, start included."""
        return self.cpu_s * 1e6 / self.records

    @property
    def warm_cpu_s_per_million(self) -> float:
        """The same from the first record on."""
        return self.cpu_s_after_start * 1e6 / self.records

    def as_json(self) -> dict[str, Any]:
        """One line of a results file."""
        derived = (
            "records_per_s",
            "records_per_s_with_start",
            "cpu_s_per_million",
            "warm_cpu_s_per_million",
        )
        everything = asdict(self) | {name: getattr(self, name) for name in derived}
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in everything.items()
            if value is not None
        }


@dataclass(frozen=True)
class Pair:
    """Two runs that followed each other."""

    ours: Figures
    theirs: Figures

    def speed(self, workload: Workload) -> float | None:
        """The ratio of a workload's main figure.

        Records per second; with start-up for a restore, because libraries disagree on where one
        starts; the median latency (smaller is better) where latency is measured.
        """
        if workload.kind == "latency":
            return ratio(self.ours.p50_ms, self.theirs.p50_ms)
        if workload.kind == "restore":
            return self.ours.records_per_s_with_start / self.theirs.records_per_s_with_start
        return self.ours.records_per_s / self.theirs.records_per_s

    def warm_speed(self) -> float | None:
        """The ratio over the last 70 % of the records."""
        return ratio(self.ours.warm_records_per_s, self.theirs.warm_records_per_s)

    def cpu(self) -> float | None:
        """The ratio of CPU seconds, start included."""
        return ratio(self.ours.cpu_s, self.theirs.cpu_s)

    def thread_cpu(self) -> float | None:
        """The ratio of CPU seconds of the busiest threads."""
        return ratio(self.ours.thread_cpu_s, self.theirs.thread_cpu_s)

    def memory(self) -> float | None:
        """The ratio of peak resident memory."""
        return ratio(self.ours.rss_max_mb, self.theirs.rss_max_mb)

    def p99(self) -> float | None:
        """The ratio of the 99th percentile of the latency."""
        return ratio(self.ours.p99_ms, self.theirs.p99_ms)

    @property
    def stolen_cpu_s(self) -> float:
        """What the host took during the worse half."""
        return max(self.ours.stolen_cpu_s, self.theirs.stolen_cpu_s)


def summary(workload: Workload, pairs: Sequence[Pair]) -> dict[str, Any]:
    """The ratios over all pairs of one output policy."""
    speeds = known([pair.speed(workload) for pair in pairs])
    result: dict[str, Any] = {
        "pairs": len(pairs),
        "ratio_min": rounded(min(speeds, default=None)),
        "ratio_median": rounded(median(speeds)),
        "ratio_max": rounded(max(speeds, default=None)),
        "warm_ratio_median": rounded(median([pair.warm_speed() for pair in pairs])),
        "cpu_ratio_median": rounded(median([pair.cpu() for pair in pairs])),
        "thread_cpu_ratio_median": rounded(median([pair.thread_cpu() for pair in pairs])),
        "rss_ratio_median": rounded(median([pair.memory() for pair in pairs])),
        "is_verified": all(p.ours.is_verified and p.theirs.is_verified for p in pairs),
    }
    if workload.kind == "latency":
        result["p99_ratio_median"] = rounded(median([pair.p99() for pair in pairs]))
    return result


def overall(
    workload: Workload, peer: str | None, by_emit: dict[Emit, list[Pair]]
) -> dict[str, Any]:
    """The last line. With two output policies its ratios are those of the WORSE one."""
    summaries = {emit: summary(workload, pairs) for emit, pairs in by_emit.items()}
    found = {emit: s for emit, s in summaries.items() if s["ratio_median"] is not None}
    line: dict[str, Any] = {"workload": workload.code, "against": peer}
    if not found:
        nothing = ("ratio_min", "ratio_median", "ratio_max", "warm_ratio_median")
        return line | dict.fromkeys(nothing)
    worst = max if workload.kind == "latency" else min
    emit = worst(found, key=lambda e: float(found[e]["ratio_median"]))
    line |= found[emit]
    if len(summaries) > 1:
        line |= {"emit": emit, "by_emit": summaries}
    line["is_verified"] = all(s["is_verified"] for s in summaries.values())
    return line
