"""Drawn topologies, run by Kafka Streams and by logstate: a difference is a bug of one of them."""
