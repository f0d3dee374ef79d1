"""A store filled from a parquet file of a million rows; ``python -m tests.campaigns.filling``."""
