"""Queries: reading committed local state from any thread.

Imports task, topics and the packages below them; never commit or restore. `queries` reads stores,
`global_stores` reads the global ones. Start with `queries`.
"""
