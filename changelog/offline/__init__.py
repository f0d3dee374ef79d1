"""Change the state of a stopped application.

`reshard` moves its rows to another number of partitions; `backfill` fills a store from outside.
Both write as an instance does: in transactions of one fenced producer, with a cut that matches
the rows, and only while the consumer group has no members.

Imports changelog, and the parts of the runtime that handle topics, clients and task commits.
Imported by commands and by the Spark sink. Start with `stopped_application`.
"""
