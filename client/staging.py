"""Exactly once into a queue: closed times, and stages that are committed together. Only Quorate's own nodes know these.

All of it is safe to repeat, because the nodes recognize what they have seen: a stage by its producer's sequence numbers, a
commit by its application and batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.fetched import encode_stage_body
from quorate.client.connection import Answer, Request
from quorate.client.core import Core, Message, Moved, Part, by_topic, refusal
from quorate.client.errors import BadAnswer, BadInput, QuorateError, RequestFailed
from quorate.client.metadata import Leader
from quorate.client.pool import Lane
from quorate.client.producing import whole_batch
from quorate.client.values import Address, Buffer, Closed, Committed, Stage

_GRACE_S: Final = 1.0
"""A node is the first to give up, so that its answer says what became of it."""
_OUTCOMES: Final[tuple[Literal["committed"], Literal["already"]]] = ("committed", "already")


async def closed_time(
    core: Core, parts: Collection[Part], *, at_least: int = -1, max_wait_ms: int = 0
) -> dict[Part, Closed]:
    """How far each partition's time is closed; waits until it is so up to `at_least`, or `max_wait_ms` is over."""
    if max_wait_ms < 0:
        raise BadInput(f"max_wait_ms must not be negative, and is {max_wait_ms}")

    async def ask(address: Address, group: Sequence[Part]) -> dict[Part, Closed | QuorateError]:
        topics = [{"name": topic, "partitions": partitions} for topic, partitions in by_topic(group).items()]
        value = {"topics": topics, "at_least": at_least, "max_wait_ms": max_wait_ms}
        said = await core.ask(address, Api.CLOSED_TIME, value, extra_s=max_wait_ms / 1000)
        return dict(_closed(topic["name"], one) for topic in said["topics"] for one in topic["partitions"])

    return await core.at_leaders(parts, ask)


def _closed(topic: str, one: Message) -> tuple[Part, Closed | QuorateError]:
    part = Part(topic, one["index"])
    error = refusal(part, one["error_code"], "the closed time of", one["error_message"])
    return part, error or Closed(one["closed_time"], one["end_offset"])


async def stage(core: Core, part: Part, batch: Buffer) -> int:
    """Keep a batch of an idempotent producer for a later commit; the offset of what keeps it."""
    view, idempotent = whole_batch(batch)
    if not idempotent:
        raise BadInput("only batches of a producer (new_producer) can be staged")
    timeout_ms = core.settings.request_timeout_ms

    def encode(version: int) -> Sequence[Buffer]:
        return encode_stage_body(version, part.topic, part.partition, view, timeout_ms)

    request = Request(Api.STAGE, encode, core.timeout_s + _GRACE_S)

    async def once(leader: Leader) -> int:
        answer = await core.pool.ask(leader.address, request, Lane.ORDERED)
        return _staged(leader.address, part, answer)

    return await core.at_leader(part, once)


def _staged(address: Address, part: Part, answer: Answer) -> int:
    try:
        said = decode_response(Api.STAGE, answer.version, answer.body)
    except BadMessage as error:
        raise BadAnswer(str(address), f"STAGE: {error}") from error
    for topic in said["topics"]:
        for one in topic["partitions"]:
            if (topic["name"], one["index"]) == part:
                refused = refusal(part, one["error_code"], "a stage for", one["error_message"])
                if refused is not None:
                    raise Moved(refused, -1, -1)
                return int(one["base_offset"])
    raise BadAnswer(str(address), f"STAGE: nothing about {part}")


async def commit_staged(
    core: Core, application_id: str, batch_id: int, stages: Sequence[Stage], *, timeout_ms: int
) -> Committed:
    """Commit stages together, unless this batch of this application was committed before.

    Repeated when an answer was lost: the very same stages are recognized, and "committed" once more.
    """
    if not application_id or batch_id < 0:
        raise BadInput(f"application {application_id!r}, batch {batch_id}: a name and a number from 0 on are needed")
    value = {
        "application_id": application_id,
        "batch_id": batch_id,
        "timeout_ms": timeout_ms,
        "stages": [{"producer_id": one.producer_id, "parts": [part._asdict() for part in one.parts]} for one in stages],
    }

    async def once(address: Address) -> Committed:
        said = await core.ask(address, Api.COMMIT_STAGED, value, Lane.ALONE, extra_s=timeout_ms / 1000 + _GRACE_S)
        if said["error_code"]:
            what = f"commit of batch {batch_id} of {application_id!r}"
            raise RequestFailed(said["error_code"], what, said["error_message"])
        if not 0 <= said["outcome"] < len(_OUTCOMES):
            raise BadAnswer(str(address), f"COMMIT_STAGED: outcome {said['outcome']}")
        return Committed(_OUTCOMES[said["outcome"]], said["published"])

    return await core.at_any(once, again=lambda _: True)


async def drop_staged(core: Core, stages: Sequence[Stage]) -> None:
    """Forget stages that are not committed. Without it they are forgotten some time later."""
    named = [
        {
            "producer_id": one.producer_id,
            "parts": [{"topic": part.topic, "partition": part.partition} for part in one.parts],
        }
        for one in stages
    ]

    async def once(address: Address) -> None:
        said = await core.ask(address, Api.DROP_STAGED, {"stages": named}, Lane.ALONE)
        if said["error_code"]:
            raise RequestFailed(said["error_code"], "dropping stages", said["error_message"])

    await core.at_any(once, again=lambda _: True)
