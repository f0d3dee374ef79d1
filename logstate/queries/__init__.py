"""Queries: reading committed local state from any thread.

Imports task, topics and what is below them; never commit or restore. `queries` reads the stores of
tasks, `global_stores` keeps and `global_queries` reads the global ones. Start with `queries`.
"""
