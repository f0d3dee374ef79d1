"""Stores of every kind, read by Spark while their workers die.

Run ``python -m tests.campaigns.spark_chaos``.
"""
