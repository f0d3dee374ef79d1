"""How fast is logstate beside other libraries? Same records, same broker, same run.

``python -m tests.performance W2 --against kafka-streams --pairs 3`` runs the two one after the
other, in turns, and prints every figure and the ratio of each pair. It is a benchmark, not a test:
`./dev test` only checks its arithmetic and that the logstate side computes the right outputs.
"""
