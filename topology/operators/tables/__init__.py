"""Operators of tables: rows computed from rows, and what turns streams into tables and back.

Imports graph, processor and operators of streams. Start with `rows`, then `derived_tables`.
"""
