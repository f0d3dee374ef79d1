"""What an application needs, as the admin client wants it."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from logstate.admin.needed_acls import NeededAcl

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}


def binding(acl: NeededAcl, principal: str) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if acl.is_prefix else ResourcePatternType.LITERAL
    operation, allow = OPERATIONS[acl.operation], AclPermissionType.ALLOW
    return AclBinding(RESOURCES[acl.resource], acl.name, pattern, principal, "*", operation, allow)
