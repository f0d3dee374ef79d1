"""One application, two libraries: Kafka Streams and logstate take over from each other."""
