"""Operators of streams: stateless steps, the user's processors, and sinks.

Imports graph and processor. Stateless steps of a kind share a file. Start with `mappers`.
"""
