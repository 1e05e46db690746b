"""One replica of a queue's partition: appends, idempotent producers, reads, retention. It runs on `consensus.runtime`.

`Partition` is the one to use; its values and its one error are in `values`. Not here: any protocol.
"""

from quorate.broker.partition.partition import Partition
from quorate.broker.partition.settings import PartitionSettings
from quorate.broker.partition.values import Appended, Closed, EpochEnd, Fetched, KafkaFailure, ListedOffset

__all__ = [
    "Appended",
    "Closed",
    "EpochEnd",
    "Fetched",
    "KafkaFailure",
    "ListedOffset",
    "Partition",
    "PartitionSettings",
]
