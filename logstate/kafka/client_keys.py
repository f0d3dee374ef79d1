"""The settings that librdkafka 2.16 and its Python client know, to recognise misspelled ones.

A name that is missing here is no error by itself, because newer clients know more; the client
decides. Aliases are included.
"""

from __future__ import annotations

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

# What people bring along from the Java clients and from Kafka Streams, and what to say instead.
ELSEWHERE = {
    "application.id": "give application_id= to Application",
    "buffer.memory": "use 'queue.buffering.max.kbytes'",
    "commit.interval.ms": "give commit_interval= to Application",
    "default.key.serde": "declare key= where the topic is used",
    "default.value.serde": "declare value= where the topic is used",
    "key.deserializer": "declare key= where the topic is used",
    "key.serializer": "declare key= where the topic is used",
    "max.request.size": "use 'message.max.bytes'",
    "num.stream.threads": "give workers= to Application",
    "processing.guarantee": "give guarantee= to Application",
    "sasl.jaas.config": "use 'sasl.username' and 'sasl.password'",
    "schema.registry.url": "give avro(..., registry=url) where the topic is used",
    "ssl.truststore.location": "use 'ssl.ca.location' with a PEM file",
    "ssl.truststore.password": "use 'ssl.ca.location' with a PEM file, which needs no password",
    "state.dir": "give state_dir= to Application",
    "value.deserializer": "declare value= where the topic is used",
    "value.serializer": "declare value= where the topic is used",
}

#: what only consumers have, and a user may set; producers warn of it
CONSUMER_KEYS = frozenset(
    """
    check.crcs consume.callback.max.messages coordinator.query.interval.ms fetch.error.backoff.ms
    fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms
    heartbeat.interval.ms max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    offset.store.path offset.store.sync.interval.ms queued.max.messages.kbytes queued.min.messages
    session.timeout.ms share.acknowledgement.mode
    """.split()  # noqa: SIM905  as above
)

#: what only producers have, likewise
PRODUCER_KEYS = frozenset(
    """
    batch.num.messages batch.size compression.codec compression.level compression.type
    delivery.timeout.ms linger.ms message.send.max.retries message.timeout.ms produce.offset.report
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queuing.strategy request.timeout.ms retries
    sticky.partitioning.linger.ms
    """.split()  # noqa: SIM905  as above
)
