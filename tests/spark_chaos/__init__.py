"""Stores of every kind, read by Spark while their workers die; ``python -m tests.spark_chaos``."""
