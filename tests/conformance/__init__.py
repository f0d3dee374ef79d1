"""Recorded runs of Apache Kafka Streams, replayed through logstate and compared.

``python -m tests.conformance DIR [DIR...]`` reads every vector file of the folders, builds the
topology of each from its steps with logstate's public DSL, replays the recorded events through the
:class:`~logstate.testing.TopologyTestDriver` and compares all that the recording holds.

One module per noun: ``vectors`` (files), ``wire`` (JSON values and bytes), ``functions`` and
``aggregators`` (the named functions of the recordings), ``processors`` (the named processors),
``steps`` (JSON steps to DSL calls), ``naming`` (graph, topics and stores), ``contents`` (what a
store holds), ``replay`` (one run), ``compare`` (what must be equal), ``suite`` (a folder).
"""
