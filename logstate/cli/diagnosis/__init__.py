"""Commands that report problems: ``status``, ``lag`` and ``doctor``.

Imports shared, directory, kafka and topics. Start with `lag`.
"""
