"""Offsets of partitions: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from quorate.broker.kafka.backend import KafkaFailure, ListedOffset, TimeSpec
from quorate.broker.kafka.context import Call, Context, Later, Message
from quorate.broker.kafka.handlers.reading import partition_to_read
from quorate.broker.protocol.kafka.errors import Error

_READ_COMMITTED = 1
_LOCAL_EARLIEST = -4
"""The earliest offset on the broker's own disk. All of a log is there, so it is the earliest one."""
_LATEST_TIERED = -5


# ListOffsets.


def list_offsets(context: Context, call: Call, message: Message) -> Message | Later:
    """The offset of a time, or of the beginning or the end, for each partition. Usually known at once."""
    committed_only = message.get("isolation_level") == _READ_COMMITTED
    waiting: list[tuple[Message, Awaitable[ListedOffset]]] = []
    topics = []
    for topic in message["topics"]:
        partitions = []
        for wanted in topic["partitions"]:
            answer: Message = {"partition_index": wanted["partition_index"], "error_code": 0}
            partitions.append(answer)
            try:
                found = _list_offset(context, topic["name"], wanted, committed_only)
            except KafkaFailure as failure:
                _no_offset(answer, failure)
            else:
                if isinstance(found, ListedOffset):
                    _put_offset(answer, found)
                else:
                    waiting.append((answer, found))
        topics.append({"name": topic["name"], "partitions": partitions})
    result = {"throttle_time_ms": 0, "topics": topics}
    return _when_listed(result, waiting) if waiting else result


def _list_offset(
    context: Context, name: str, wanted: Message, committed_only: bool
) -> ListedOffset | Awaitable[ListedOffset]:
    timestamp = wanted["timestamp"]
    partition = partition_to_read(context.backend, name, wanted["partition_index"])
    if timestamp == _LATEST_TIERED:
        return ListedOffset(-1, -1, -1)
    if timestamp == _LOCAL_EARLIEST:
        timestamp = int(TimeSpec.EARLIEST)
    if timestamp < TimeSpec.MAX_TIMESTAMP:
        raise KafkaFailure(Error.UNSUPPORTED_VERSION, f"timestamp {timestamp} has no meaning")
    return partition.list_offset(timestamp, wanted.get("current_leader_epoch", -1), committed_only)


async def _when_listed(result: Message, waiting: Sequence[tuple[Message, Awaitable[ListedOffset]]]) -> Message:
    for answer, found in waiting:
        try:
            _put_offset(answer, await found)
        except KafkaFailure as failure:
            _no_offset(answer, failure)
    return result


def _put_offset(answer: Message, found: ListedOffset) -> None:
    answer["offset"], answer["timestamp"], answer["leader_epoch"] = found


def _no_offset(answer: Message, failure: KafkaFailure) -> None:
    answer["error_code"] = int(failure.error)
    _put_offset(answer, ListedOffset(-1, -1, -1))


# OffsetForLeaderEpoch.


def offset_for_leader_epoch(context: Context, call: Call, message: Message) -> Message:
    """Where epochs ended: a client that comes back finds out whether its offset still means the same."""
    topics = [
        {"topic": topic["topic"], "partitions": [_end_of(context, topic["topic"], wanted) for wanted in topic["partitions"]]}
        for topic in message["topics"]
    ]
    return {"throttle_time_ms": 0, "topics": topics}


def _end_of(context: Context, name: str, wanted: Message) -> Message:
    index = wanted["partition"]
    try:
        partition = partition_to_read(context.backend, name, index)
        end = partition.end_of_epoch(wanted["leader_epoch"], wanted.get("current_leader_epoch", -1))
    except KafkaFailure as failure:
        return {"error_code": int(failure.error), "partition": index, "leader_epoch": -1, "end_offset": -1}
    return {"error_code": 0, "partition": index, "leader_epoch": end.epoch, "end_offset": end.end_offset}


# DeleteRecords.


async def delete_records(context: Context, call: Call, message: Message) -> Message:
    """Move the start of logs."""
    topics = []
    for topic in message["topics"]:
        partitions = [await _delete(context, topic["name"], wanted) for wanted in topic["partitions"]]
        topics.append({"name": topic["name"], "partitions": partitions})
    return {"throttle_time_ms": 0, "topics": topics}


async def _delete(context: Context, name: str, wanted: Message) -> Message:
    index, offset = wanted["partition_index"], wanted["offset"]
    try:
        if offset < -1:
            raise KafkaFailure(Error.OFFSET_OUT_OF_RANGE, f"offset {offset}")
        start = await context.backend.partition(name, index).delete_before(offset)
    except KafkaFailure as failure:
        return {"partition_index": index, "low_watermark": -1, "error_code": int(failure.error)}
    return {"partition_index": index, "low_watermark": start, "error_code": 0}
