"""Generated records: of the types that a topology declares, drawn from a seed.

Imports the topology. Start with `records`: it generates records for each topic that a topology
reads. `objects` uses a serde's description; `json_data`, `avro_data` and `protobuf_data` generate.
"""
