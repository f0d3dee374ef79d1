"""Mutated records: whatever bytes arrive, the application lives and sorts them rightly.

Valid JSON, Avro and raw records are mutated, run through an application whose deserialization
handler is ``dead_letter``, and judged by decoders that are not the application's: the standard
library's JSON with the declared type's rules, Apache's Avro, a grammar of UTF-8.
``python -m tests.mutation_campaign --records 1000000`` does any number.
"""
