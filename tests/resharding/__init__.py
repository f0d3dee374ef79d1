"""State moved to other partitions by processes that are killed; ``python -m tests.resharding``."""
