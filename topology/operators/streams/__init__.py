"""Operators of streams: stateless steps, the user's processors, and sinks.

Imports graph and processor. One operator per file. Start with `filter`.
"""
