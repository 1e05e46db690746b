"""Which requests we speak, in which versions, and from which version on they are flexible (compact, with tagged fields)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Api(IntEnum):
    """The API keys of the requests that we speak."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    # Our own: Kafka's are small numbers, and clients never ask for what they do not know.
    CLOSED_TIME = 0x5100
    STAGE = 0x5101
    COMMIT_STAGED = 0x5102
    DROP_STAGED = 0x5103


# First and last version. Produce 0-2 is there because older librdkafka looks for exact versions and would skip
# compression without them; it can be decoded, but its records are of an older format. Produce 12 would mean other
# transactions, 13 and OffsetCommit 10 topic ids.
SUPPORTED: Final[dict[Api, tuple[int, int]]] = {
    Api.PRODUCE: (0, 11),
    Api.FETCH: (4, 16),
    Api.LIST_OFFSETS: (1, 9),
    Api.METADATA: (0, 12),
    Api.OFFSET_COMMIT: (2, 9),
    Api.OFFSET_FETCH: (1, 9),
    Api.FIND_COORDINATOR: (0, 5),
    Api.JOIN_GROUP: (0, 9),
    Api.HEARTBEAT: (0, 4),
    Api.LEAVE_GROUP: (0, 5),
    Api.SYNC_GROUP: (0, 5),
    Api.DESCRIBE_GROUPS: (0, 5),
    Api.LIST_GROUPS: (0, 4),
    Api.SASL_HANDSHAKE: (0, 1),
    Api.API_VERSIONS: (0, 4),
    Api.CREATE_TOPICS: (2, 7),
    Api.DELETE_TOPICS: (1, 6),
    Api.DELETE_RECORDS: (0, 2),
    Api.INIT_PRODUCER_ID: (0, 4),
    Api.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.SASL_AUTHENTICATE: (0, 2),
    Api.CREATE_PARTITIONS: (0, 3),
    Api.DELETE_GROUPS: (0, 2),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.OFFSET_DELETE: (0, 0),
    Api.DESCRIBE_CLUSTER: (0, 1),
}
PRIVATE: Final[dict[Api, tuple[int, int]]] = {
    Api.CLOSED_TIME: (0, 0),
    Api.STAGE: (0, 0),
    Api.COMMIT_STAGED: (0, 0),
    Api.DROP_STAGED: (0, 0),
}
"""What Kafka does not have. Advertised to our own clients only, so that others see nothing new."""
ALL_VERSIONS: Final = SUPPORTED | PRIVATE

NEVER: Final = 1 << 15  # above any version: versions are int16

FLEXIBLE_FROM: Final[dict[Api, int]] = {
    Api.PRODUCE: 9,
    Api.FETCH: 12,
    Api.LIST_OFFSETS: 6,
    Api.METADATA: 9,
    Api.OFFSET_COMMIT: 8,
    Api.OFFSET_FETCH: 6,
    Api.FIND_COORDINATOR: 3,
    Api.JOIN_GROUP: 6,
    Api.HEARTBEAT: 4,
    Api.LEAVE_GROUP: 4,
    Api.SYNC_GROUP: 4,
    Api.DESCRIBE_GROUPS: 5,
    Api.LIST_GROUPS: 3,
    Api.SASL_HANDSHAKE: NEVER,
    Api.API_VERSIONS: 3,
    Api.CREATE_TOPICS: 5,
    Api.DELETE_TOPICS: 4,
    Api.DELETE_RECORDS: 2,
    Api.INIT_PRODUCER_ID: 2,
    Api.OFFSET_FOR_LEADER_EPOCH: 4,
    Api.DESCRIBE_CONFIGS: 4,
    Api.SASL_AUTHENTICATE: 2,
    Api.CREATE_PARTITIONS: 2,
    Api.DELETE_GROUPS: 2,
    Api.INCREMENTAL_ALTER_CONFIGS: 1,
    Api.OFFSET_DELETE: NEVER,
    Api.DESCRIBE_CLUSTER: 0,
    Api.CLOSED_TIME: 0,
    Api.STAGE: 0,
    Api.COMMIT_STAGED: 0,
    Api.DROP_STAGED: 0,
}
OUR_SOFTWARE: Final = "quorate"
"""How the name begins by which our own clients call themselves in ApiVersions."""


def supports(api: int, version: int) -> bool:
    """Whether requests of this version can be decoded and answered."""
    first, last = ALL_VERSIONS.get(api, (0, -1))  # type: ignore[call-overload]
    return bool(first <= version <= last)


def is_flexible(api: int, version: int) -> bool:
    """Whether this version has compact lengths and tagged fields. Also right for versions that we do not speak."""
    return version >= FLEXIBLE_FROM[Api(api)]
