"""Operators that join: streams in windows, streams with tables, tables by key and by foreign key.

Imports graph and operators of streams and tables. One side of a join per file. Start with
`stream_table_join`.
"""
