"""Stage, CommitStaged, DropStaged: records that are kept first and committed together. Requests of our own.

Which are explained in docs/protocol-extensions.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from quorate.broker.kafka.backend import Appended, KafkaFailure, StagedIn, StageWish
from quorate.broker.kafka.context import Call, Context, Message
from quorate.broker.protocol.kafka.errors import Error


async def stage(context: Context, call: Call, message: Message) -> Message:
    """Keep a batch for each partition. All are begun before the first is waited for, so requests keep their order."""
    waiting = [
        (topic["name"], [_stage(context, topic["name"], part["index"], part["records"]) for part in topic["partitions"]])
        for topic in message["topics"]
    ]
    topics = [{"name": name, "partitions": [await answer for answer in answers]} for name, answers in waiting]
    return {"throttle_time_ms": 0, "topics": topics}


def _stage(context: Context, name: str, index: int, records: bytes | None) -> Awaitable[Message]:
    answer: asyncio.Future[Message] = context.loop.create_future()

    def done(outcome: Appended | KafkaFailure) -> None:
        if answer.done():
            return  # the request was given up
        if isinstance(outcome, KafkaFailure):
            answer.set_result({"index": index, "error_code": int(outcome.error), "error_message": outcome.message})
        else:
            answer.set_result({"index": index, "error_code": 0, "error_message": None, "base_offset": outcome.base_offset})

    try:
        if not records:
            raise KafkaFailure(Error.INVALID_RECORD, "there must be exactly one batch")
        context.backend.partition(name, index).stage(records, done)
    except KafkaFailure as failure:
        done(failure)
    return answer


async def commit_staged(context: Context, call: Call, message: Message) -> Message:
    """Commit all of these stages or none, once per application and batch."""
    stages = [
        StageWish(
            one["producer_id"],
            [StagedIn(part["topic"], part["partition"], part["batches"], part["records"]) for part in one["parts"]],
        )
        for one in message["stages"]
    ]
    backend = context.backend
    try:
        ours, published = await backend.commit_staged(
            message["application_id"], message["batch_id"], stages, message["timeout_ms"]
        )
    except KafkaFailure as failure:
        return {"throttle_time_ms": 0, "error_code": int(failure.error), "error_message": failure.message}
    if not ours and stages:
        context.spawn(_drop_quietly(context, stages))
    return {"throttle_time_ms": 0, "error_code": 0, "outcome": 0 if ours else 1, "published": published}


async def _drop_quietly(context: Context, stages: list[StageWish]) -> None:
    """What another attempt has committed before makes these superfluous. If it does not work now, they expire."""
    try:
        await context.backend.drop_staged(stages)
    except KafkaFailure:
        return


async def drop_staged(context: Context, call: Call, message: Message) -> Message:
    """Drop stages that are no part of a commit."""
    stages = [
        StageWish(one["producer_id"], [StagedIn(part["topic"], part["partition"], 0, 0) for part in one["parts"]])
        for one in message["stages"]
    ]
    try:
        if stages:
            await context.backend.drop_staged(stages)
    except KafkaFailure as failure:
        return {"throttle_time_ms": 0, "error_code": int(failure.error), "error_message": failure.message}
    return {"throttle_time_ms": 0, "error_code": 0, "error_message": None}
