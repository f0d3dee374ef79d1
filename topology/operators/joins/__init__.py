"""Operators that join: streams in windows, streams with tables, tables by key and by foreign key.

Imports graph and operators of streams and tables. A file has one side of a join, or both. Start
with `stream_table_join`.
"""
