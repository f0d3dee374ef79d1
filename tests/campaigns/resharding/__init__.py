"""State moved to other partitions by processes that are killed.

Run ``python -m tests.campaigns.resharding``.
"""
