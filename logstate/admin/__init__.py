"""Operations on the state of a stopped application.

`reset` deletes topics and offsets, `reshard` moves rows to another number of partitions, `backfill`
and `spark_sink` fill a store with rows from outside, `handover` changes the owner of an
application ID between logstate and Kafka Streams. Each checks that the group has no member and
writes in transactions of one fenced producer, so that a crash leaves all of its changes or none.

Imports changelog, kafka, task, topics and topology. Start with `stopped_application`.
"""
