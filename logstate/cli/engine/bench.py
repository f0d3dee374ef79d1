"""``logstate bench``: measure how many records per second a topology processes."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from logstate.cli.shared.options import CommandConfig, Json, Target
from logstate.cli.shared.printing import print_json, print_text
from logstate.cli.shared.stored_state import client_settings
from logstate.contracts.errors import ConfigError, RecordError
from logstate.contracts.records import ProducedRecord

if TYPE_CHECKING:
    from logstate.generated.records import GeneratedInput
    from logstate.testing.benched_alone import Benched
    from logstate.topology.plan.plan import Topology


class _Wanted(NamedTuple):
    """The generated input."""

    records: int
    keys: int
    seed: int
    rate: int
    inputs: Callable[[], Iterable[Any]] | None


def bench(
    wanted: Target,
    records: Annotated[
        int, typer.Option(min=1, help="Number of records, of all inputs together.")
    ] = 100_000,
    keys: Annotated[int, typer.Option(min=1, help="Number of different keys per topic.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Equal seeds generate equal records.")] = 1,
    rate: Annotated[
        int, typer.Option(min=1, help="Records per second of event time, for windows.")
    ] = 1_000,
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Your own records: a function that yields (topic, key, value[, time in ms]).",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Another existing topic: of a pattern, or of a sink.")
    ] = None,
    broker: Annotated[
        bool, typer.Option("--broker", help="Use a broker that is started for the measurement.")
    ] = False,
    bootstrap: Annotated[
        str | None, typer.Option(help="Use these brokers, which must not have its topics yet.")
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of topics, on brokers.")] = 4,
    workers: Annotated[int, typer.Option(min=1, help="As in Application, on brokers.")] = 1,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Measure a topology with generated records of its declared types.

    Example: `logstate bench spending:topology --records 200000`. Without a broker: one task at full
    speed in this process, with its stores in RocksDB. This shows the cost of functions, serdes and
    stores. With --broker or --bootstrap: a whole application, exactly once, from its first record
    to its last.
    """
    from logstate.cli.engine.broker_bench import BenchTarget, bench_on_brokers
    from logstate.generated.records import topics_read
    from logstate.local_broker.broker import LocalBroker
    from logstate.topology.dsl.topology_target import load_attribute, load_topology
    from logstate.topology.plan.pattern_topics import with_matching_topics

    if broker and bootstrap is not None:
        raise ConfigError("--broker starts a broker; leave out --bootstrap or --broker")
    fed = _Wanted(records, keys, seed, rate, None if inputs is None else load_attribute(inputs))
    topology = with_matching_topics(load_topology(wanted), topic or ())
    application_id = f"logstate-bench-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        state_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="logstate-bench-")))
        if broker:
            bootstrap = stack.enter_context(LocalBroker.start()).bootstrap
        try:
            if bootstrap is None:
                found = _run_without_broker(topology, application_id, state_dir, fed)
            else:
                settings = client_settings(command_config)
                place = BenchTarget(
                    bootstrap, settings, state_dir, partitions, workers, tuple(topic or ())
                )
                made = _input_records(topics_read(topology), fed)
                target: Topology | str = wanted if workers > 1 else topology
                found = bench_on_brokers(target, topology, application_id, place, made)
        except RecordError as error:
            raise _not_accepted(error, inputs) from error
    _print(found, as_json=as_json)


def _run_without_broker(
    topology: Topology, application_id: str, state_dir: Path, fed: _Wanted
) -> Benched:
    from logstate.generated.records import topics_read
    from logstate.testing.benched_alone import Bench
    from logstate.worker.gc_tuner import gc_tuner

    read = topics_read(topology)
    everywhere = {ref.name for sub in topology.global_sub_topologies for ref in sub.source_topics}
    rows = (
        [one for one in _input_records(read, fed) if one.topic in everywhere] if everywhere else []
    )
    bench = Bench(topology, application_id, state_dir, rows)
    try:
        with gc_tuner.rare():  # as in a worker
            return bench.run(
                one for one in _input_records(read, fed) if one.topic not in everywhere
            )
    finally:
        bench.close()


def _input_records(read: list[GeneratedInput], fed: _Wanted) -> Iterator[ProducedRecord]:
    from logstate.generated.records import generated_records, given_records

    if fed.inputs is not None:
        return given_records(read, fed.inputs(), fed.records, per_second=fed.rate)
    return generated_records(read, fed.records, keys=fed.keys, seed=fed.seed, per_second=fed.rate)


def _not_accepted(error: RecordError, inputs: str | None) -> Exception:
    """Explain that a function may not accept generated records."""
    if inputs is not None:
        return error
    return ConfigError(
        f"{str(error).rstrip('.')}. The record was generated from the declared types: if a"
        " function expects more than they declare, pass your own records with --inputs"
        " MODULE:FUNCTION"
    )


def _print(found: Benched, *, as_json: bool) -> None:
    summary = {
        "records": found.records,
        "seconds": round(found.seconds, 3),
        "records_per_s": round(found.records_per_s),
        "microseconds_per_record": round(found.seconds / max(found.records, 1) * 1e6, 2),
        "outputs": dict(sorted(found.outputs.items())),
        "changelog_records": found.changelog_records,
        "dropped": found.dropped,
    }
    if as_json:
        print_json(summary)
        return
    print_text(
        f"{found.records:,} records in {found.seconds:.2f} s: {found.records_per_s:,.0f} records/s,"
        f" {summary['microseconds_per_record']} µs each"
    )
    for name, count in sorted(found.outputs.items()):
        print_text(f"  {count:,} to {name}")
    print_text(f"  {found.changelog_records:,} changes of stores")
    if found.dropped:
        print_text(f"  {found.dropped:,} dropped: null keys, null values, or late (check --rate)")
