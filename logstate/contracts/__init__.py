"""Contracts: the definitions that every other package uses, without behavior.

Imports no other package of the library. Basic classes (`records`), stores (`stores`), the protocols
of the clients (`clients`), the chain that operators compile into (`processing`), names with an
application id as prefix (`topic_names`), every exception (`errors`). Start with `records`, then
`clients`.
"""
