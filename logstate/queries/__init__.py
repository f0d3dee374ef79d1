"""Queries: reading committed local state from any thread.

Imports task, topics and the packages below them; never commit or restore. A store of `queries`
sends one request (`requests`) per partition to the `reader` of the process that has it.
`global_stores` follows the topics of global tables. Start with `queries`.
"""
