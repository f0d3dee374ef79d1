"""Kafka: confluent-kafka behind protocols; the only package that imports it.

Imports contracts, and the extension module in C if it was built. `cluster` creates the clients,
`group_consumer`, `log_consumer` and `producer` implement the protocols, `error_classes` is the
table of every error code, `log_reader` reads logs for readers outside an application. Start with
`cluster`.
"""
