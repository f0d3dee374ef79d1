"""The optional extension module ``_records``: records from and to librdkafka in batches, in C.

Start with `_records.c`. Imports nothing. Loaded by `logstate.kafka.extension`.
"""
