"""Kafka: confluent-kafka behind the seams; the only room that imports it.

Imports contracts only. `cluster` makes the clients, `group_consumer`, `log_consumer` and `producer`
are the seams' other side, `error_classes` is the table of every error code, `log_reader` reads logs
for readers outside an application. Start with `cluster`.
"""
