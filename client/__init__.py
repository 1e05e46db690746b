"""What applications import: the async client and its blocking twin.

Of our own packages, client imports `quorate.broker.protocol` only, so an application never loads a broker.
Not here: the command line (`quorate.cli`) and the Spark source and sink (`quorate.spark`).
"""

from quorate.client.aio import AsyncClient
from quorate.client.blocking import Client
from quorate.client.errors import (
    BadAnswer,
    BadInput,
    BadSettings,
    ClientClosed,
    ConnectionLost,
    NotSupported,
    OffsetOutOfRange,
    QuorateError,
    RequestFailed,
    TimedOut,
    UnknownTopic,
    Unreachable,
)
from quorate.client.settings import ClientSettings
from quorate.client.values import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Address,
    Closed,
    Committed,
    Fetched,
    FoundOffset,
    PartitionInfo,
    Produced,
    ProducerId,
    Stage,
    StagePart,
    TopicInfo,
    TopicPartition,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Address",
    "AsyncClient",
    "BadAnswer",
    "BadInput",
    "BadSettings",
    "Client",
    "ClientClosed",
    "ClientSettings",
    "Closed",
    "Committed",
    "ConnectionLost",
    "Fetched",
    "FoundOffset",
    "NotSupported",
    "OffsetOutOfRange",
    "PartitionInfo",
    "Produced",
    "ProducerId",
    "QuorateError",
    "RequestFailed",
    "Stage",
    "StagePart",
    "TimedOut",
    "TopicInfo",
    "TopicPartition",
    "UnknownTopic",
    "Unreachable",
]
