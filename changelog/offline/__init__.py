"""What is done to the state of an application while nobody runs it.

Its rows are moved to another number of partitions (`reshard`), or filled from outside (`backfill`).
Both write as an instance does: in transactions of one fenced producer, with a cut that belongs to
the rows, and only while the group has no member.

Imports changelog, and of the runtime what knows topics, clients and what a task commits; commands
and Spark's sink import it. Start with `stopped_application`.
"""
