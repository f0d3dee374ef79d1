"""The command line of each program, with each library's best settings for the workload.

What all have in common: one stream thread (``--workers N``: N, of logstate and of Kafka Streams;
the peer ``one-worker`` is logstate without the others, ``without-extension`` logstate without its
extension module),
the same commit interval, lz4, 50 ms of linger (5 ms where latency is measured), idempotent
producers, JSON on both sides and in the state. Kafka Streams writes every update where its cache is
off (``emit`` update) and the last per key and commit or eviction where it is on; Quix, Faust and
Bytewax write every update.
"""

from __future__ import annotations

import sys
from pathlib import Path

from logstate.kafka.extension import VARIABLE
from tests.performance.jvm_peer import MAIN_CLASS, class_path
from tests.performance.python_peer import interpreter, program
from tests.performance.settings import Run, Settings
from tests.performance.workload import OURS, Variant

_MIB = 1 << 20


def command(settings: Settings, run: Run, state: Path) -> list[str]:
    """How to start one run of a peer, or of logstate."""
    if run.peer == "kafka-streams":
        return _kafka_streams(settings, run, state)
    variant = OURS.get(run.peer)
    if variant is None:
        python = [str(interpreter(run.peer)), str(program(run.peer))]
    else:
        python = _logstate(settings, run, variant)
    words = [
        *("--workload", settings.workload.program),
        *("--bootstrap", settings.bootstrap),
        *("--in", run.inputs),
        *("--out", run.outputs),
        *("--group", run.name),
        *("--state-dir", str(state)),
        *("--commit-ms", str(settings.commit_interval_ms)),
        *("--records", str(settings.records)),
    ]
    if run.table:
        words += ["--table", run.table]
    if settings.workload.is_exactly_once:
        words.append("--eos")
    if settings.workload.is_latency and variant is None:
        words.append("--low-latency")
    return [*python, *words]


def environment(run: Run) -> dict[str, str]:
    """Variables of the process of a run."""
    return {} if OURS.get(run.peer, Variant()).has_extension else {VARIABLE: "0"}


def feeder_command(settings: Settings, topic: str) -> list[str]:
    """How to start what feeds a topic at a steady rate."""
    return [
        *(sys.executable, "-m", "tests.performance.feeder"),
        *("--bootstrap", settings.bootstrap, "--topic", topic),
        *("--records-per-s", str(settings.records_per_s)),
        *("--seconds", str(settings.latency_s), "--keys", str(settings.keys)),
    ]


def prepare(peer: str) -> None:
    """Fetch and compile what a peer needs, outside every measurement."""
    if peer == "kafka-streams":
        class_path()
    elif peer not in OURS:
        interpreter(peer)


def _logstate(settings: Settings, run: Run, variant: Variant) -> list[str]:
    python = [sys.executable, "-m", "tests.performance.logstate_peer", "--emit", run.emit]
    python += ["--linger-ms", str(settings.linger_ms)]
    if settings.workers > 1 and variant.has_workers:
        python += ["--workers", str(settings.workers)]
    if settings.cache_mib is not None:
        python += ["--cache-mib", str(settings.cache_mib)]
    return python


def _kafka_streams(settings: Settings, run: Run, state: Path) -> list[str]:
    workload = settings.workload
    java, path = class_path()
    guarantee = "exactly_once_v2" if workload.is_exactly_once else "at_least_once"
    # The cache serves reads too: only where it would hold results back it can be unwanted.
    has_cache = run.emit == "commit" or not (workload.has_emit or workload.is_latency)
    cache_mib = settings.cache_mib or settings.cache_mb
    config: dict[str, object] = {
        "workload": workload.program,
        "in": run.inputs,
        "out": run.outputs,
        "table": run.table,
        "application.id": run.name,
        "bootstrap.servers": settings.bootstrap,
        "state.dir": state,
        "num.stream.threads": settings.workers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": settings.commit_interval_ms,
        "statestore.cache.max.bytes": cache_mib * _MIB if has_cache else 0,
        "topology.optimization": "all",
        "replication.factor": 1,
        "buffered.records.per.partition": 5_000,
        "max.task.idle.ms": 100,
        "auto.offset.reset": "earliest",
        "producer.compression.type": "lz4",
        "producer.linger.ms": settings.linger_ms,
        "producer.batch.size": 262_144,
        "producer.buffer.memory": 134_217_728,
        "consumer.max.poll.records": 5_000,
        "consumer.max.partition.fetch.bytes": 8_388_608,
        "restore.consumer.max.poll.records": 10_000,
        "restore.consumer.max.partition.fetch.bytes": 8_388_608,
    }
    config |= dict(pair.split("=", 1) for pair in settings.kafka_streams)
    arguments = [f"{key}={value}" for key, value in config.items()]
    heap = ["-Xms512m", "-Xmx1g"]
    return [
        str(java.executable), *heap, *settings.jvm_options, "-cp", path, MAIN_CLASS, *arguments,
    ]  # fmt: skip
