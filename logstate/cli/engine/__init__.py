"""Commands that run an application: ``run``, ``bench`` and ``replay``.

Imports app, testing and the packages below them. Start with `run`.
"""
