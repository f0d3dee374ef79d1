"""Commands that read stores: ``get``, ``stores``, ``tail``, ``export`` and ``cut``.

Imports shared, changelog/cuts and changelog/reading. Start with `get`.
"""
