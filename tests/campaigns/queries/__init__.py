"""Queries to any instance, for keys of any other, while instances come, go and die."""
