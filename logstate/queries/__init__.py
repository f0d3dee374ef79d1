"""Queries: reading committed local state from any thread.

Imports task, topics and what is below them; never commit or restore. `queries` reads stores,
`global_stores` keeps the global ones. Start with `queries`.
"""
