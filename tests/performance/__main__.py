"""``python -m tests.performance W2 --against kafka-streams --pairs 3``.

Each pair is two runs after each other on the same broker over the same records; every run's outputs
are checked. Prints figures and ratios, and as the last line one JSON object. With two output
policies (every update; the last per key and commit) its ratios are those of the worse one.

``python -m tests.performance spark`` compares the readers of stores instead (`spark_readers`).

Exits with 1 when an output was wrong or a run did not finish, and with 2 when something is missing
that cannot be installed from here.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from logstate.contracts.errors import BrokerError, ConfigError
from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.jars import cache_directory
from tests.performance.bench import NotFinishedError
from tests.performance.command import prepare
from tests.performance.figures import Figures, Pair, overall
from tests.performance.jvm_peer import MissingToolError
from tests.performance.machine import load_average
from tests.performance.measured_process import EndedEarlyError
from tests.performance.pairs import measure, measure_pair
from tests.performance.parser import parser_of
from tests.performance.report import figures_line, ratio_line
from tests.performance.settings import PARTITIONS, Settings
from tests.performance.topics import Topics
from tests.performance.workload import PEERS, WORKLOADS, Emit, emits

#: latencies follow what the host takes closely, so disturbed pairs are repeated without being asked
_LATENCY_STOLEN_MAX_S = 1.0


def main() -> int:
    """The command line."""
    if sys.argv[1:2] == ["spark"]:
        from tests.performance import spark_readers  # needs PySpark, and nothing else here does

        return spark_readers.main(sys.argv[2:])
    arguments = _arguments()
    workload = WORKLOADS[arguments.workload]
    peer = None if arguments.against == "none" else arguments.against
    if peer is not None and workload.code not in PEERS[peer]:
        print(f"{peer} has no program for {workload.code} ({workload.name})", file=sys.stderr)
        return 2
    try:
        prepare(peer or "logstate")
        with _broker(arguments) as (bootstrap, pid):
            return _compare(arguments, _settings(arguments, bootstrap, pid), peer)
    except (MissingToolError, ConfigError, BrokerError) as error:
        print(error, file=sys.stderr)
        return 2
    except (NotFinishedError, EndedEarlyError) as error:
        print(error, file=sys.stderr)
        return 1


def _compare(arguments: argparse.Namespace, settings: Settings, peer: str | None) -> int:
    workload, topics = settings.workload, Topics(settings.bootstrap, settings.partitions)
    policies: tuple[Emit, ...] = emits(workload, peer)
    if arguments.emit != "both":
        policies = (arguments.emit,)
    stolen_max_s = arguments.stolen_max
    if stolen_max_s is None and workload.is_latency:
        stolen_max_s = _LATENCY_STOLEN_MAX_S
    _warm_up(settings, topics, policies[0], peer, arguments.warm_up)
    pairs: dict[Emit, list[Pair]] = {emit: [] for emit in policies}
    alone: list[Figures] = []
    for number in range(arguments.pairs):
        for emit in policies:
            policy = f", emit {emit}" if workload.has_emit else ""
            print(f"{workload.code} {workload.name}, pair {number + 1}{policy}, load", end=" ")
            print(f"{load_average():.1f}", flush=True)

            def measure_one(program: str, emit: Emit = emit) -> Figures:
                figures = measure(settings, topics, program, emit)
                print(figures_line(figures), flush=True)
                _append(arguments.results, workload.code, figures)
                return figures

            if peer is None:
                alone.append(measure_one("logstate"))
                continue
            pair = measure_pair(number, measure_one, peer, stolen_cpu_max_s=stolen_max_s)
            pairs[emit].append(pair)
            print(ratio_line(workload, pair), flush=True)
    line = overall(workload, peer, pairs)
    line["is_verified"] = all(
        [figures.is_verified for figures in alone]
        + [p.ours.is_verified and p.theirs.is_verified for some in pairs.values() for p in some]
    )
    print(json.dumps(line))
    return 0 if line["is_verified"] else 1


def _warm_up(
    settings: Settings, topics: Topics, emit: Emit, peer: str | None, records: int
) -> None:
    """Run each program once for nothing.

    A broker that was just started compiles while it serves: that takes up to half a core from the
    first who are measured, and programs that leave a core to it lose less by it than others.
    """
    if settings.workload.kind != "throughput" or not records:
        return
    settings = dataclasses.replace(settings, records=min(records, settings.records))
    for program in dict.fromkeys(("logstate", peer or "logstate")):
        measure(settings, topics, program, emit)


def _append(results: Path | None, code: str, figures: Figures) -> None:
    if results is not None:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"workload": code, **figures.as_json()}) + "\n")


@contextlib.contextmanager
def _broker(arguments: argparse.Namespace) -> Iterator[tuple[str, int | None]]:
    """The given broker, or one for this run; its process where it is known."""
    if arguments.bootstrap:
        yield arguments.bootstrap, arguments.broker_pid
        return
    with LocalBroker.start(heap="1g") as broker:
        yield broker.bootstrap, broker.pid


def _settings(arguments: argparse.Namespace, bootstrap: str, pid: int | None) -> Settings:
    work = (arguments.work or cache_directory() / "performance").resolve()
    (work / "state").mkdir(parents=True, exist_ok=True)
    return Settings(
        WORKLOADS[arguments.workload],
        bootstrap,
        work,
        records=arguments.records,
        keys=arguments.keys,
        partitions=arguments.partitions,
        workers=arguments.workers,
        record_bytes=arguments.record_bytes,
        commit_interval_ms=arguments.commit_ms,
        cache_mb=arguments.cache_mb,
        cache_mib=arguments.cache_mib,
        linger_ms=_linger_ms(arguments),
        jvm_options=tuple(arguments.jvm.split()),
        kafka_streams=tuple(arguments.set),
        limit_s=arguments.limit,
        records_per_s=arguments.rate,
        latency_s=arguments.seconds,
        broker_pid=pid,
        keeps=arguments.keep,
    )


def _linger_ms(arguments: argparse.Namespace) -> int:
    if arguments.linger_ms is not None:
        return int(arguments.linger_ms)
    return 5 if WORKLOADS[arguments.workload].is_latency else 50


def _arguments() -> argparse.Namespace:
    parser = parser_of("python -m tests.performance", __doc__)
    add = parser.add_argument
    add(
        "workload",
        choices=sorted(WORKLOADS),
        help="; ".join(f"{w.code} {w.name}" for w in WORKLOADS.values()),
    )
    add("--against", choices=[*PEERS, "none"], default="kafka-streams")
    add("--pairs", type=int, default=3)
    add("--records", type=int, default=1_000_000)
    add("--warm-up", type=int, default=3_000_000, help="records of a first run that does not count")
    add("--keys", type=int, default=100_000, help="different keys at most")
    add("--partitions", type=int, default=PARTITIONS)
    add("--workers", type=int, default=1, help="of logstate; threads of Kafka Streams")
    add("--record-bytes", type=int, default=0, help="events are filled up to this size")
    add("--emit", choices=("both", "update", "commit"), default="both", help="output policy")
    add("--commit-ms", type=int, default=1_000, help="commit interval of both")
    add("--cache-mb", type=int, default=10, help="Kafka Streams' record cache")
    add("--cache-mib", type=int, help="one bound of configured cache for both sides")
    add("--set", action="append", default=[], help="key=value for Kafka Streams")
    add("--linger-ms", type=int, help="of logstate and Kafka Streams (default 50; W7: 5)")
    add("--jvm", default="-XX:+UseG1GC", help="options of Kafka Streams' JVM")
    add("--bootstrap", help="a broker that runs; otherwise one is started for this run")
    add("--broker-pid", type=int, help="to know the given broker's CPU time")
    add("--work", type=Path, help="where state, logs and expectations go")
    add("--limit", type=float, default=180.0, help="seconds before a run is given up")
    add("--stolen-max", type=float, help="repeat pairs that lost more CPU seconds (W7: 1)")
    add("--rate", type=int, default=5_000, help="records per second of W7")
    add("--seconds", type=int, default=60, help="how long W7 is fed")
    add("--results", type=Path, help="append every run to this file, a JSON line each")
    add("--keep", action="store_true", help="keep topics, state and logs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
