"""Consumer groups: Kafka's classic protocol, coordinated by the leaders of the partitions of `@groups`.

`GroupsState` is what is replicated; `Coordinator` serves it, without I/O.
"""

from quorate.broker.groups.coordinator import Coordinator, Standing, partition_of
from quorate.broker.groups.effects import Answer, Append, Confirm, Done, Effects, Outcome, Response
from quorate.broker.groups.errors import Failure
from quorate.broker.groups.records import BadGroupRecord, KeyValue, build_batch, decode_change, encode_change
from quorate.broker.groups.requests import Identity, JoinRequest, Leaver, OffsetToCommit, SyncRequest
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.state import GroupsState

__all__ = [
    "Answer",
    "Append",
    "BadGroupRecord",
    "Confirm",
    "Coordinator",
    "Done",
    "Effects",
    "Failure",
    "GroupSettings",
    "GroupsState",
    "Identity",
    "JoinRequest",
    "KeyValue",
    "Leaver",
    "OffsetToCommit",
    "Outcome",
    "Response",
    "Standing",
    "SyncRequest",
    "build_batch",
    "decode_change",
    "encode_change",
    "partition_of",
]
