"""Commands that prepare or change the topics and offsets of an application.

These are ``plan``, ``topology``, ``topics``, ``acls``, ``reset``, ``reshard`` and ``handover``.
Imports shared, admin and topics. Start with `plan`.
"""
