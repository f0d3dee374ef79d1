"""Backend: where rows lie. RocksDB, or memory.

Imports contracts only. `backend` is the contract, `memory` the reference, `rocks` the medium of
persistent stores. Start with `backend`.
"""
