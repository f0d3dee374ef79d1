"""Flights out of New York in 2013: statistics that survive a crash, compared with plain Polars."""
