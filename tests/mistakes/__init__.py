"""Plausible mistakes of users, and what each is answered: ``python -m tests.mistakes``.

One function per mistake. It makes the mistake; what it raises or logs is the answer, and has to
hold what the decorator expects: what was found, where, and what to do. A mistake without an answer
is *silent*, an answer without these parts is *unhelpful*; neither is allowed.
"""
