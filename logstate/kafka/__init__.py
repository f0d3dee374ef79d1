"""The Kafka seam: the only package that imports confluent_kafka.

A leaf: the runtime uses it to run, the Spark reader to read. Everything here translates; nothing
here decides.
"""
