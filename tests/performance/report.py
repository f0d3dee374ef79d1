"""What the benchmark prints."""

from __future__ import annotations

from tests.performance.figures import Figures, Pair
from tests.performance.workload import Workload


def figures_line(figures: Figures) -> str:
    """One run."""
    parts = [f"  {figures.peer:14}"]
    if figures.p50_ms is not None:
        parts += [f"p50 {figures.p50_ms:7.1f} ms", f"p99 {_ms(figures.p99_ms)}"]
        parts.append(f"p99.9 {_ms(figures.p999_ms)}")
    else:
        parts.append(f"{figures.records_per_s:9,.0f}/s")
        warm = figures.warm_records_per_s
        parts.append(f"warm {warm:9,.0f}/s" if warm is not None else "warm         –  ")
        parts.append(f"with start {figures.records_per_s_with_start:9,.0f}/s")
    parts += [
        f"CPU s/M {figures.cpu_s_per_million:6.2f}",
        f"({figures.warm_cpu_s_per_million:6.2f} after start)",
        f"RSS {figures.rss_max_mb:5.0f} MB",
    ]
    if figures.thread_cpu_s is not None:
        parts.append(f"thread {figures.thread_cpu_s * 1e6 / figures.records:5.2f}")
    if figures.broker_cpu_s is not None:
        parts.append(f"broker {figures.broker_cpu_s * 1e6 / figures.records:5.2f}")
    parts.append(f"stolen {figures.stolen_cpu_s:.1f} s, others {figures.other_cpu_s:.1f} s")
    if figures.outputs is not None:
        logged = f" / {figures.changelog_records:,}" if figures.changelog_records else ""
        parts.append(f"outputs {figures.outputs:,}{logged}")
    if not figures.is_verified:
        parts.append("NOT VERIFIED")
    return "  ".join(parts)


def ratio_line(workload: Workload, pair: Pair) -> str:
    """The ratios of one pair."""
    parts = [f"  ratio: {_ratio(pair.speed(workload))}"]
    if workload.is_latency:
        parts.append(f"p99 {_ratio(pair.p99())}")
    else:
        parts.append(f"warm {_ratio(pair.warm_speed())}")
    parts += [f"CPU {_ratio(pair.cpu())}", f"thread {_ratio(pair.thread_cpu())}"]
    parts.append(f"RSS {_ratio(pair.memory())}")
    return "  ".join(parts)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:7.1f} ms"
