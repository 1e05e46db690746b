"""ClosedTime: up to when the log of each partition is complete. A request of our own (docs/protocol-extensions.md)."""

from __future__ import annotations

import asyncio

from quorate.broker.kafka.backend import KafkaFailure
from quorate.broker.kafka.context import Call, Context, Message


async def closed_time(context: Context, call: Call, message: Message) -> Message:
    """All partitions wait beside each other, so the answer takes as long as the slowest."""
    at_least = message["at_least"]
    wait_s = min(max(0, message["max_wait_ms"]), context.settings.fetch_max_wait_ms) / 1000
    wishes = [(topic["name"], index) for topic in message["topics"] for index in topic["partitions"]]
    answers = await asyncio.gather(*(_closed(context, name, index, at_least, wait_s) for name, index in wishes))
    found = iter(answers)
    topics = [
        {"name": topic["name"], "partitions": [next(found) for _ in topic["partitions"]]} for topic in message["topics"]
    ]
    return {"throttle_time_ms": 0, "topics": topics}


async def _closed(context: Context, name: str, index: int, at_least: int, wait_s: float) -> Message:
    try:
        closed = await context.backend.partition(name, index).closed_time(at_least, wait_s)
    except KafkaFailure as failure:
        return {"index": index, "error_code": int(failure.error), "error_message": failure.message}
    return {
        "index": index,
        "error_code": 0,
        "error_message": None,
        "closed_time": closed.closed_ms,
        "end_offset": closed.end_offset,
    }
