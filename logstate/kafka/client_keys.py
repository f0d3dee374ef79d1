"""The settings that librdkafka 2.16 and its Python client know, and those that the JVM knows.

A name that is missing here is not an error by itself, because newer clients have more settings; the
client decides. Aliases are included. For settings of Kafka Streams and the Java clients, this
module has the replacement here, as the end of a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN_KEYS = frozenset(
    """
    acks allow.auto.create.topics api.version.fallback.ms api.version.request
    api.version.request.timeout.ms auto.commit.enable auto.commit.interval.ms auto.offset.reset
    batch.num.messages batch.size bootstrap.servers broker.address.family broker.address.ttl
    broker.version.fallback builtin.features check.crcs client.dns.lookup client.id client.rack
    compression.codec compression.level compression.type connections.max.idle.ms
    consume.callback.max.messages coordinator.query.interval.ms debug delivery.report.only.error
    delivery.timeout.ms enable.auto.commit enable.auto.offset.store enable.gapless.guarantee
    enable.idempotence enable.metrics.push enable.partition.eof enable.random.seed
    enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification error_cb
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes
    fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol
    group.protocol.type group.remote.assignor heartbeat.interval.ms https.ca.location
    https.ca.pem internal.termination.signal isolation.level linger.ms log.connection.close
    log.queue log.thread.name log_level logger max.in.flight
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records message.copy.max.bytes message.max.bytes message.send.max.retries
    message.timeout.ms metadata.broker.list metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy oauth_cb
    offset.store.method offset.store.path offset.store.sync.interval.ms
    partition.assignment.strategy partitioner plugin.library.paths produce.offset.report
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms
    reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks request.timeout.ms
    retries retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name
    sasl.mechanism sasl.mechanisms sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
    sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type
    sasl.oauthbearer.method sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
    session.timeout.ms share.acknowledgement.mode socket.blocking.max.ms
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails
    socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
    ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location
    ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.providers
    ssl.sigalgs.list statistics.interval.ms stats_cb sticky.partitioning.linger.ms throttle_cb
    topic.blacklist topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
    """.split()  # noqa: SIM905  a list of 170 quoted names would hide them
)

#: settings of consumers only that a user may set; producers warn about them
CONSUMER_KEYS = frozenset(
    """
    check.crcs consume.callback.max.messages coordinator.query.interval.ms fetch.error.backoff.ms
    fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms
    heartbeat.interval.ms max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    offset.store.path offset.store.sync.interval.ms queued.max.messages.kbytes queued.min.messages
    session.timeout.ms share.acknowledgement.mode
    """.split()  # noqa: SIM905  as above
)

#: settings of producers only, likewise
PRODUCER_KEYS = frozenset(
    """
    batch.num.messages batch.size compression.codec compression.level compression.type
    delivery.timeout.ms linger.ms message.send.max.retries message.timeout.ms produce.offset.report
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queuing.strategy request.timeout.ms retries
    sticky.partitioning.linger.ms
    """.split()  # noqa: SIM905  as above
)

# --- settings of the JVM that librdkafka does not have --------------------------------------------

_ADVICE: Mapping[str, str] = {
    # Kafka Streams
    "acceptable.recovery.lag": "give standby_replicas=StandbySettings(acceptable_lag=...)",
    "allow.os.group.write.access": "an instance has its state_dir to itself",
    "application.id": "give application_id= to Application",
    "application.server": "give serve='host:port' to Application",
    "buffered.records.per.partition": "give buffered_records_per_partition= to Application",
    "cache.max.bytes.buffering": (
        "there is no record cache; give emit='commit' to the operator that should send one update"
        " per key and commit"
    ),
    "commit.interval.ms": "give commit_interval= to Application",
    "default.client.supplier": "clients are created from these settings alone",
    "default.deserialization.exception.handler": (
        "give error_handlers=ErrorHandlers(deserialization=...) to Application"
    ),
    "default.dsl.store": "give in_memory_stores=True to StreamsBuilder",
    "default.key.serde": "declare key= where the topic is used",
    "default.production.exception.handler": (
        "give error_handlers=ErrorHandlers(production=...) to Application"
    ),
    "default.timestamp.extractor": "give timestamp_extractor= where the topic is declared",
    "default.value.serde": "declare value= where the topic is used",
    "deserialization.exception.handler": (
        "give error_handlers=ErrorHandlers(deserialization=...) to Application"
    ),
    "dsl.store.format": "give store_headers=True to StreamsBuilder",
    "dsl.store.suppliers.class": "give in_memory_stores=True to StreamsBuilder",
    "ensure.explicit.internal.resource.naming": "names of stores and topics are always yours",
    "errors.dead.letter.queue.topic.name": (
        "give error_handlers=ErrorHandlers(dead_letter_topic=...) to Application"
    ),
    "internal.leave.group.on.close": "call app.close(leave_group=True)",
    "log.summary.interval.ms": "give log_summary_interval= to Application",
    "max.task.idle.ms": "give max_task_idle= to Application",
    "max.warmup.replicas": "give standby_replicas=StandbySettings(bytes_per_s=...)",
    "num.standby.replicas": "give standby_replicas= to Application",
    "num.stream.threads": "give workers= to Application",
    "poll.ms": "a worker polls as its records and its commits allow",
    "probing.rebalance.interval.ms": ("give standby_replicas=StandbySettings(warm_up_timeout=...)"),
    "processing.exception.handler": (
        "give error_handlers=ErrorHandlers(processing=...) to Application"
    ),
    "processing.exception.handler.global.enabled": (
        "the handlers of error_handlers= are asked about global tables too"
    ),
    "processing.guarantee": "give guarantee= to Application",
    "processor.wrapper.class": "wrap the function or class that is given to process()",
    "production.exception.handler": (
        "give error_handlers=ErrorHandlers(production=...) to Application"
    ),
    "repartition.purge.interval.ms": "processed records are deleted after commits",
    "replication.factor": "give replication_factor= to Application",
    "rocksdb.config.setter": "RocksDB is set up by the library; checkpoint_bytes= bounds its work",
    "state.cleanup.delay.ms": "give state_cleanup_delay= to Application",
    "state.dir": "give state_dir= to Application",
    "statestore.cache.max.bytes": (
        "there is no record cache; give emit='commit' to the operator that should send one update"
        " per key and commit"
    ),
    "task.assignor.class": "tasks are assigned by the group's protocol: give group_protocol=",
    "task.timeout.ms": "give retry(...) in error_handlers=, and start_timeout= for a start",
    "topology.optimization": "call builder.build('all')",
    "upgrade.from": "see docs/upgrades.md",
    "window.size.ms": "declare windowed(key, size_ms) where the topic is used",
    "windowed.inner.class.serde": "declare windowed(key, size_ms) where the topic is used",
    "windowed.inner.deserializer.class": "declare windowed(key, size_ms) where the topic is used",
    "windowed.inner.serializer.class": "declare windowed(key, size_ms) where the topic is used",
    "windowstore.changelog.additional.retention.ms": (
        "rows are removed once their store does not need them"
    ),
    # the Java clients
    "auto.include.jmx.reporter": "call app.metrics()",
    "buffer.memory": "use 'queue.buffering.max.kbytes'",
    "compression.gzip.level": "use 'compression.level'",
    "compression.lz4.level": "use 'compression.level'",
    "compression.zstd.level": "use 'compression.level'",
    "default.api.timeout.ms": "use 'socket.timeout.ms'",
    "exclude.internal.topics": "give the topics, or a pattern, where the stream is declared",
    "fetch.max.wait.ms": "use 'fetch.wait.max.ms'",
    "interceptor.classes": "observe records with peek()",
    "key.deserializer": "declare key= where the topic is used",
    "key.serializer": "declare key= where the topic is used",
    "max.block.ms": (
        "the client waits for space in a full queue without a limit; use 'message.timeout.ms' for"
        " how long a record may take"
    ),
    "max.request.size": "use 'message.max.bytes'",
    "metadata.max.idle.ms": "use 'metadata.max.age.ms'",
    "metric.reporters": "call app.metrics(), or export them with logstate.metrics",
    "metrics.num.samples": "call app.metrics()",
    "metrics.recording.level": "call app.metrics()",
    "metrics.sample.window.ms": "call app.metrics()",
    "partitioner.class": "give partitioner= where the topic is written",
    "receive.buffer.bytes": "use 'socket.receive.buffer.bytes'",
    "sasl.client.callback.handler.class": "use 'oauth_cb', or 'sasl.username' and 'sasl.password'",
    "sasl.jaas.config": "use 'sasl.username' and 'sasl.password'",
    "sasl.login.callback.handler.class": "use 'oauth_cb', or 'sasl.oauthbearer.method'",
    "sasl.login.class": "use 'oauth_cb', or 'sasl.oauthbearer.method'",
    "schema.registry.url": "give avro(..., registry=url) where the topic is used",
    "security.providers": "use 'ssl.providers'",
    "send.buffer.bytes": "use 'socket.send.buffer.bytes'",
    "socket.connection.setup.timeout.max.ms": "use 'socket.connection.setup.timeout.ms'",
    "ssl.enabled.protocols": "OpenSSL negotiates the version; set its least one for the machine",
    "ssl.engine.factory.class": "use 'ssl.certificate.location' and 'ssl.key.location'",
    "ssl.keystore.certificate.chain": "use 'ssl.certificate.pem'",
    "ssl.keystore.key": "use 'ssl.key.pem'",
    "ssl.keystore.type": "give a PKCS#12 file, or 'ssl.key.pem' with 'ssl.certificate.pem'",
    "ssl.protocol": "OpenSSL negotiates the version; set its least one for the machine",
    "ssl.truststore.certificates": "use 'ssl.ca.pem'",
    "ssl.truststore.location": "use 'ssl.ca.location' with a PEM file",
    "ssl.truststore.password": "use 'ssl.ca.location' with a PEM file, which needs no password",
    "ssl.truststore.type": "use 'ssl.ca.location' with a PEM file",
    "value.deserializer": "declare value= where the topic is used",
    "value.serializer": "declare value= where the topic is used",
}

#: the same for names that begin so, unless they are in the table above
_FAMILIES: Mapping[str, str] = {
    "client.tag.": "standbys are on other instances, in other racks by 'client.rack' first",
    "default.list.": "declare list[...] where the topic is used",
    "default.windowed.": "declare windowed(key, size_ms) where the topic is used",
    "partitioner.": "give partitioner= where the topic is written",
    "rack.aware.assignment.": "use 'client.rack'",
    "sasl.login.": "use 'oauth_cb', which returns how long a token is valid",
}

#: settings of the brokers, for any prefix
_OF_BROKERS = frozenset(
    """
    auto.create.topics.enable default.replication.factor group.initial.rebalance.delay.ms
    group.max.session.timeout.ms num.partitions offsets.retention.minutes
    transaction.max.timeout.ms transactional.id.expiration.ms
    """.split()  # noqa: SIM905  a list of quoted names would hide them
)

#: settings of topics
_OF_TOPICS = frozenset(
    """
    cleanup.policy delete.retention.ms max.compaction.lag.ms max.message.bytes
    message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas
    retention.bytes retention.ms segment.bytes segment.ms unclean.leader.election.enable
    """.split()  # noqa: SIM905  as above
)

#: prefixes of Kafka Streams, and the argument that takes such settings here
_PREFIXES: Mapping[str, str] = {
    "main.consumer.": "consumer",
    "restore.consumer.": "consumer",
    "global.consumer.": "consumer",
    "consumer.": "consumer",
    "producer.": "producer",
    "admin.": "admin",
}
_TOPIC_PREFIX = "topic."

#: for the search of the nearest name to an unknown one
JAVA_NAMES = frozenset((*_ADVICE, *_OF_BROKERS, *_OF_TOPICS))


def java_advice(name: str) -> str | None:
    """Return the replacement for a setting of the JVM; None for other names.

    >>> java_advice("num.standby.replicas")
    'give standby_replicas= to Application'
    >>> java_advice("producer.linger.ms")
    "give producer={'linger.ms': ...} to Application"
    >>> java_advice("linger.ms") is None
    True
    """
    if name in _ADVICE:
        return _ADVICE[name]
    if name in _OF_BROKERS:
        return "it is a setting of the brokers"
    if name in _OF_TOPICS:
        return f"give topic_config={{{name!r}: ...}} to Application for the topics it makes"
    for prefix, clients in _PREFIXES.items():
        if name.startswith(prefix):
            inner = name.removeprefix(prefix)
            return java_advice(inner) or f"give {clients}={{{inner!r}: ...}} to Application"
    if name.startswith(_TOPIC_PREFIX):
        inner = name.removeprefix(_TOPIC_PREFIX)
        return f"give topic_config={{{inner!r}: ...}} to Application for the topics it makes"
    return next((advice for start, advice in _FAMILIES.items() if name.startswith(start)), None)
