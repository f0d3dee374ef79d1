"""Faults on a real broker: processes killed and frozen, the network cut, disks full.

``python -m tests.campaigns.chaos --kills 20 --seed 1`` runs three workers under steady load, does
the faults of the seed one after the other, and then compares every output value and every store
with what a sequential calculation over the input logs gives.
"""
