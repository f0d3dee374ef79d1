"""Processor: the low level, operators that users write.

Imports contracts, serdes and declaring. The context of a task, stores that processors use, timers
per key, timestamp extractors. Start with `processor`.
"""
