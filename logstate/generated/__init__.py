"""Records that nobody wrote: of the types that a topology declares, drawn from a seed.

Imports the topology. Start with `records`: what is made for each topic that a topology
reads. `objects` asks a serde what it takes, `json_data`, `avro_data` and `protobuf_data` make it.
"""
