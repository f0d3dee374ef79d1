"""Contracts: what every other room agrees on, and nothing that does anything.

Imports nothing of ours. Nouns (`records`), what a store is (`stores`), the client as the engine
sees it (`seams`), the chain that operators compile into (`processing`), names that begin with an
application id (`topic_names`), every exception (`errors`). Start with `records`, then `seams`.
"""
