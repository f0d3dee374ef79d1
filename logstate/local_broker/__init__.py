"""Local broker: a real Apache Kafka on this machine, for development and tests.

Imports contracts only. `jars` fetches it, `java` finds what it runs on, `jvm` starts it, `fencing`
makes a restart after a kill safe. Start with `broker`.
"""
