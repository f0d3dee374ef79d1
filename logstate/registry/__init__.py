"""Schema registries: ids of schemas, schemas of ids, and the errors for refusals.

Imports contracts only. Start with `schema_registry`: the protocol, which any object may implement.
`client` creates Confluent's client, `schema_ids` caches schemas for reading, `subjects` for
writing.
"""
