"""What is asked of a schema registry: ids of schemas, schemas of ids, and how refusals are told.

Imports contracts only. Start with `schema_registry`: the seam, which any object may stand behind.
`client` makes Confluent's client, `schema_ids` remembers what was read, `subjects` what is written.
"""
